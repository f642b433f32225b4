/**
 * Which paths the programs of a sandbox were refused, where it was asked to trace them.
 *
 * PID 1 has the list, and ends with the sandbox: what it has is taken when somebody asks, and before a stop, and then lies in a file beside the
 * sandbox's own, for a box that is stopped may outlive this daemon.
 * What a program was refused may have been written there by the program: it is shown, and decides nothing.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeFileAtomic } from '@squash/base/atomic-file';
import type { Clock } from '@squash/base/clock';
import { isErrno } from '@squash/base/errno';
import { guestLimits } from '@squash/contract/guest/frames';
import { z } from 'zod';
import type { Guest, PathIntent, RefusedPath } from '../guest/guest.ts';
import type { Sandbox } from './sandbox.ts';

const intents = ['look', 'read', 'write', 'execute'] as const satisfies readonly PathIntent[];

/** PID 1 that does not answer keeps nobody from stopping it. */
const takeMsMax = 1_000;

export interface KeptPath extends RefusedPath {
  /** Of this sandbox, from 1; rises. */
  readonly id: number;
}

const traces = new WeakMap<Sandbox, PathTrace>();

/** Undefined where nobody asked for one. */
export function pathTraceOf(sandbox: Sandbox): PathTrace | undefined {
  if (sandbox.row.hostRoot?.root.trace_paths !== true) return undefined;
  const known = traces.get(sandbox);
  if (known !== undefined) return known;
  const trace = new PathTrace(sandbox.clock);
  traces.set(sandbox, trace);
  try {
    trace.load(storedSchema.parse(JSON.parse(readFileSync(fileOf(sandbox), 'utf8'))));
  } catch (error) {
    if (!isErrno(error, 'ENOENT')) lost(sandbox, error);
  }
  return trace;
}

const storedSchema = z.strictObject({
  truncated: z.boolean(),
  paths: z
    .array(z.strictObject({ path: z.base64(), intent: z.enum(intents), at_ms: z.number() }))
    .max(guestLimits.tracedPathsMax),
});
type Stored = z.infer<typeof storedSchema>;

function fileOf({ world, row }: Sandbox): string {
  return join(world.files.directory(row.id), '.meta', 'refused-paths.json');
}

function lost({ world, row }: Sandbox, error: unknown): void {
  world.log.guest(row.id).warn('paths.lost', { error });
}

/** Before it is stopped. */
export async function keepPaths(sandbox: Sandbox): Promise<void> {
  const trace = pathTraceOf(sandbox);
  if (trace === undefined) return;
  await takePaths(sandbox);
  try {
    await writeFileAtomic(fileOf(sandbox), JSON.stringify(trace.stored()));
  } catch (error) {
    // A full disk keeps nobody from stopping a sandbox.
    lost(sandbox, error);
  }
}

/** Takes over what PID 1 has noted, while it is there to be asked. */
export async function takePaths(sandbox: Sandbox): Promise<void> {
  const { state, isFrozen } = sandbox;
  const pathTrace = pathTraceOf(sandbox);
  if (pathTrace === undefined || state.phase !== 'ready' || isFrozen) return;
  try {
    await pathTrace.take(sandbox.guest);
  } catch (error) {
    lost(sandbox, error);
  }
}

export class PathTrace {
  readonly #clock: Clock;
  readonly #kept = new Map<string, KeptPath>();
  #bytes = 0;
  #isTruncated = false;
  /** As far as this PID 1 was heard. */
  #guest: Guest | undefined;
  #offset = 0;
  #taking: Promise<void> | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  load({ truncated, paths }: Stored): void {
    this.#isTruncated = truncated;
    for (const { path, intent, at_ms: atMs } of paths)
      this.#keep({ path: Buffer.from(path, 'base64'), intent, atMs });
  }

  stored(): Stored {
    const paths = [...this.#kept.values()].map(({ path, intent, atMs }) => ({
      path: path.toString('base64'),
      intent,
      at_ms: atMs,
    }));
    return { truncated: this.#isTruncated, paths };
  }

  /** Behind `after`, in the order in which they came. */
  behind(after: number): readonly KeptPath[] {
    return [...this.#kept.values()].slice(after);
  }

  get isTruncated(): boolean {
    return this.#isTruncated;
  }

  /** Resolves when all is here that PID 1 had when it was asked. @throws guest_failed and its like */
  async take(guest: Guest): Promise<void> {
    // One that is under way may have been answered before the last came.
    await this.#taking?.catch(() => undefined);
    this.#taking ??= this.#take(guest).finally(() => {
      this.#taking = undefined;
    });
    await this.#taking;
  }

  async #take(guest: Guest): Promise<void> {
    if (guest !== this.#guest) this.#offset = 0;
    this.#guest = guest;
    const signal = AbortSignal.timeout(takeMsMax);
    for (;;) {
      const { paths, next, isTruncated } = await guest.refusedPaths(this.#offset, signal);
      for (const path of paths) this.#keep(path);
      this.#isTruncated ||= isTruncated;
      this.#offset = next;
      if (paths.length === 0) return;
    }
  }

  #keep(refused: RefusedPath): void {
    const key = `${refused.intent} ${refused.path.toString('latin1')}`;
    if (this.#kept.has(key)) return;
    if (
      this.#kept.size === guestLimits.tracedPathsMax ||
      this.#bytes + refused.path.length > guestLimits.tracedBytesMax
    ) {
      this.#isTruncated = true;
      return;
    }
    this.#bytes += refused.path.length;
    const atMs = Math.min(refused.atMs, this.#clock.wallMs());
    this.#kept.set(key, { ...refused, atMs, id: this.#kept.size + 1 });
  }
}
