/** What a scenario's builder gets: the peers, a running Squash, and how thorough the run is. */
import type { AbsentSubject, Scenario, Subject } from '../measure/scenario.ts';
import type { Peers } from '../peers/all.ts';
import type { Peer, PeerSandbox } from '../peers/peer.ts';
import type { SquashUnderTest } from '../squash/daemon.ts';

export interface Context {
  readonly quick: boolean;
  /** Removed after the run. */
  readonly workDir: string;
  readonly peers: Peers;
  /** Or why it could not be started. */
  readonly squash: SquashUnderTest | AbsentSubject;
}

/** Builds a scenario; what it opens goes on the stack and is closed when the scenario is over. */
export type ScenarioFactory = (context: Context, stack: AsyncDisposableStack) => Promise<Scenario>;

/** Rounds of a full run, or the tenth of it. */
export function rounds(context: Context, full: number): number {
  return context.quick ? Math.max(2, Math.round(full / 10)) : full;
}

/** Squash's subjects, or one row that says why there are none. */
export async function squashSubjects(
  context: Context,
  build: (squash: SquashUnderTest) => Promise<readonly Subject[]>,
): Promise<readonly Subject[]> {
  if ('absent' in context.squash) return [context.squash];
  return await build(context.squash);
}

export async function openOnStack(peer: Peer, stack: AsyncDisposableStack): Promise<PeerSandbox | undefined> {
  const sandbox = await peer.open?.();
  if (sandbox !== undefined) stack.defer(async () => await sandbox.destroy());
  return sandbox;
}
