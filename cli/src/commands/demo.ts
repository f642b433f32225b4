/**
 * `squash demo`: a sandbox that attacks this machine, one attempt after the other, each told with what stopped it. It tells the
 * truth: what gets through is red and makes the exit code 1, and what this host can't enforce is said to be so.
 */
import type { EgressDecisionInfo } from '@squash/contract/egress';
import type { ModuleAnswer } from '@squash/contract/module';
import type { SandboxRecord } from '@squash/contract/native-sandbox';
import type { ProcessResult } from '@squash/contract/process';
import { apiPath, type Client, modulesPath, nativeSandboxesPath, sandboxPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { type Attempt, attempts, notEnforced, type Verdict } from '../demo/attempts.ts';
import { Bait } from '../demo/bait.ts';
import { CliFailure, exitCodes } from '../failure.ts';
import { printJson, printLine, printNote, visible } from '../output/print.ts';
import { styled } from '../output/table.ts';
import { fittingLayers } from '../run-words.ts';

const attemptMs = 20_000;
/** It goes by itself where we can't remove it. */
const lifetimeS = 600;

type Told = Verdict & Pick<Attempt, 'id' | 'tried'> & { readonly ms: number };

const marks = {
  stopped: ['green', 'stopped'],
  succeeded: ['red', 'GOT THROUGH'],
  not_enforced: ['yellow', 'not enforced'],
  not_tried: ['yellow', 'not tried'],
} as const;

/** What no attempt can show. */
const unprotected = [
  'The kernel: sandboxes share it, and whoever has an exploit for it gets out. Code that may have one belongs on a machine of its own.',
  'Side channels: caches and memory bandwidth are shared; timing attacks are not stopped.',
  'What a policy allows: every host that it names is a way out for data, and a secret that may be used may be misused there.',
  'You: files that you take out of a sandbox and run are not in a sandbox.',
];

export async function run(call: Call): Promise<number> {
  const { client, json } = call;
  await using bait = await Bait.lay();
  const scene = new Scene(client, bait);
  await using _ = new Interrupt(scene, bait);
  await scene.begin();
  if (!json) printLine(`In a sandbox on ${scene.layers.join(', ')}, as its root:\n`);
  const told: Told[] = [];
  for (const attempt of attempts) {
    const began = performance.now();
    const verdict = await scene.make(attempt);
    const ms = Math.round(performance.now() - began);
    told.push({ id: attempt.id, tried: attempt.tried, ...verdict, ms });
    if (!json) tell(attempt, verdict);
  }
  const isThrough = told.some(({ outcome }) => outcome === 'succeeded');
  if (json) printJson({ attempts: told, not_protected: unprotected });
  else conclude(told);
  return isThrough ? exitCodes.failed : exitCodes.ok;
}

function tell({ tried }: Attempt, { outcome, by }: Verdict): void {
  const [style, word] = marks[outcome];
  printLine(`  ${styled(style, word.padEnd(12))}  ${tried}\n${' '.repeat(16)}${visible(by)}`);
}

function conclude(told: readonly Told[]): void {
  const count = (outcome: Verdict['outcome']): number =>
    told.filter((each) => each.outcome === outcome).length;
  const others = [
    ...(count('not_enforced') > 0
      ? [`${count('not_enforced')} not enforced on this host (squash doctor says why)`]
      : []),
    ...(count('not_tried') > 0 ? [`${count('not_tried')} not tried`] : []),
  ];
  printLine(
    `\n${[`${count('stopped')} stopped`, `${count('succeeded')} got through`, ...others].join(', ')}.`,
  );
  printLine('\nNot protected, whatever stands above:');
  for (const sentence of unprotected) printLine(`  - ${sentence}`);
}

class Scene {
  readonly #client: Client;
  readonly #bait: Bait;
  readonly #made: string[] = [];
  #weaker: ReadonlySet<string> = new Set();
  #hasEnded = false;
  #ending = Promise.resolve();
  layers: readonly string[] = [];

  constructor(client: Client, bait: Bait) {
    this.#client = client;
    this.#bait = bait;
  }

  async begin(): Promise<void> {
    const modules = (await this.#client.get<readonly ModuleAnswer[]>(modulesPath)).map(({ name }) => name);
    const layers = fittingLayers('', modules);
    if (layers === undefined)
      throw new CliFailure('module_not_found', 'there is no base yet; try: squash quickstart');
    this.layers = layers;
    const host = 'allowed.squash-demo.invalid';
    const { warnings } = await this.#create({
      policy: { allow: [`${host}:443`] },
      own_secrets: { DEMO_TOKEN: { value: this.#bait.secret, allowed_hosts: [host] } },
      secrets: [],
    });
    this.#weaker = new Set(warnings.map(({ code }) => code));
  }

  async make({ script, limit, memoryMb, judge }: Attempt): Promise<Verdict> {
    if (limit !== undefined && this.#weaker.has(limit)) {
      return notEnforced('this host can’t hold it, so it is not tried');
    }
    const usual = memoryMb === undefined ? undefined : await this.#setMemory(memoryMb);
    const before = (await this.#decisions(0)).at(-1)?.id ?? 0;
    const result = await this.#run(this.#id, script(this.#bait));
    const decisions = await this.#decisions(before);
    const neighbour = async (): Promise<string> => {
      const { id } = await this.#create({ policy: { allow: [] } });
      return (await this.#run(id, 'cat /etc/os-release')).stdout;
    };
    if (usual !== undefined) await this.#setMemory(usual);
    return await judge({ bait: this.#bait, result, decisions, weaker: this.#weaker, neighbour });
  }

  /** Returns what it was. */
  async #setMemory(megabytes: number): Promise<number> {
    const path = apiPath(['v1', 'sandboxes', this.#id]);
    const { memory_mb: before } = await this.#client.get<SandboxRecord>(path);
    await this.#client.patch(path, { memory_mb: megabytes });
    return before;
  }

  /** Of two callers the second waits for the first, too. */
  async end(): Promise<void> {
    this.#hasEnded = true;
    this.#ending = this.#ending.then(async () => {
      for (const id of this.#made.splice(0)) await this.#client.delete(sandboxPath(id));
    });
    await this.#ending;
  }

  get #id(): string {
    return this.#made[0] ?? '';
  }

  async #create(wish: object): Promise<SandboxRecord> {
    const made = await this.#client.post<SandboxRecord>(nativeSandboxesPath, {
      from: { layers: this.layers },
      // A microVM's root may mount, trace and load what he likes, in a kernel of his own.
      backend: 'chroot',
      name: 'squash demo',
      lifetime_s: lifetimeS,
      ...wish,
    });
    this.#made.push(made.id);
    if (this.#hasEnded) throw new CliFailure('aborted', 'the demo was ended');
    return made;
  }

  async #run(id: string, script: string): Promise<ProcessResult> {
    return await this.#client.post<ProcessResult>(apiPath(['v1', 'sandboxes', id, 'exec']), {
      argv: ['/bin/sh', '-c', script],
      timeout_ms: attemptMs,
      keep: 'tail',
    });
  }

  async #decisions(after: number): Promise<readonly EgressDecisionInfo[]> {
    const path = apiPath(['v1', 'sandboxes', this.#id, 'egress'], { after, limit: 1_000 });
    return (await this.#client.get<{ readonly decisions: readonly EgressDecisionInfo[] }>(path)).decisions;
  }
}

/** Nothing of it stays, also where it is interrupted. */
class Interrupt implements AsyncDisposable {
  readonly #signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  readonly #scene: Scene;
  readonly #bait: Bait;
  #name: NodeJS.Signals | undefined;
  readonly #end = (name: NodeJS.Signals): void => {
    if (this.#name !== undefined) return;
    this.#name = name;
    printNote('squash: removing what the demo made');
    this.#bait.removeFile();
    // What runs in it fails with this, and so the call comes to its end.
    void this.#scene.end().catch(() => undefined);
  };

  constructor(scene: Scene, bait: Bait) {
    this.#scene = scene;
    this.#bait = bait;
    for (const name of this.#signals) process.on(name, this.#end);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#scene.end();
    for (const name of this.#signals) process.off(name, this.#end);
    if (this.#name === undefined) return;
    process.kill(process.pid, this.#name);
    // Ended by the signal, as whoever sent it expects: what failed for it is not told.
    await new Promise<never>(() => undefined);
  }
}
