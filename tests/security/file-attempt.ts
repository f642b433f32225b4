/**
 * An attempt against a file operation: hostile code in the sandbox prepares or keeps changing what names mean, while
 * the daemon's guest client reads, writes, lists or watches. And what decides whether it got through.
 *
 * The same attempt runs on two grounds: a real sandbox, where a breach fails the test, and a squash-init that stands
 * in no sandbox at all, where the class must succeed. All that comes to the daemon, errors included, is searched for secrets.
 */
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Frame } from '@squash/contract/guest/codec';
import type { GuestClient } from '../../host/src/guest/client.ts';
import type { GuestExec } from '../../host/src/guest/guest.ts';
import { drain, specOf } from '../support/real-guest.ts';
import { patience, waitFor } from '../support/wait.ts';

/** An operation that takes longer has hung: each is a few hundred round trips of under a millisecond. */
const operationMsMax = 20_000 * patience;
/** What the client's process may grow by while it reads what has no end: buffers, not the file. */
const growthBytesMax = 128 * 1024 * 1024;
const user = 1_000;

export interface FileAttempt {
  /** Never reused: names the attempt in reports. */
  readonly id: string;
  /** Shell, run to its end before the operation. `$A` is the attack tool, `$S`, `$C` and `$F` the bait. */
  readonly prepare?: string;
  /** Shell that goes on while the operation runs, and is killed after it. */
  readonly meanwhile?: string;
  /** Whose code `meanwhile` is; root's in the sandbox unless said. */
  readonly asUser?: boolean;
  /** Everything that the daemon got to see, as text. */
  readonly operate: (ground: Ground) => Promise<string>;
  readonly control:
    | { readonly kind: 'same' }
    /** Where the operation is safe on any ground, a careless one takes its place. */
    | { readonly kind: 'careless'; readonly operate: (ground: Ground) => Promise<string> }
    | { readonly kind: 'none'; readonly because: string };
}

/** Where an attempt is made. */
export interface Ground {
  readonly guest: GuestClient;
  /** One request to PID 1 whose frame the client itself does not offer; its answer. */
  readonly ask: (frame: Uint8Array) => Promise<Frame>;
  /** The attack tool's path there. */
  readonly tool: string;
  /** An empty directory there, made for this attempt. */
  readonly directory: string;
  readonly bait: Bait;
  /** Words of the daemon's surroundings that must not come out, beside the bait's. */
  readonly secrets: readonly string[];
  /** Whether there is a user besides root. */
  readonly hasUsers: boolean;
}

/** Files of the host, open to everybody, so that only the sandbox's walls keep them. */
export class Bait implements AsyncDisposable {
  readonly folder: string;
  readonly secretFile: string;
  readonly canaryFile: string;
  /** The secret's text, its size as `sizeText` writes it, and a name that nobody can know who has not listed. */
  readonly secrets: readonly string[];
  readonly #listedFile: string;
  readonly #before: string;

  private constructor(folder: string) {
    const [word, name] = [randomWord(), randomWord()];
    this.folder = join(folder, 'folder');
    mkdirSync(this.folder);
    this.secretFile = join(this.folder, 'secret');
    this.canaryFile = join(this.folder, 'canary');
    const text = word.padEnd(40_000 + (randomBytes(2).readUInt16LE() % 20_000), '.');
    writeFileSync(this.secretFile, text);
    writeFileSync(this.canaryFile, 'as it was');
    for (const path of [this.secretFile, this.canaryFile]) chmodSync(path, 0o666);
    for (const path of [this.folder, folder]) chmodSync(path, 0o777);
    this.secrets = [word, sizeText(text.length), name];
    this.#listedFile = join(this.folder, name);
    writeFileSync(this.#listedFile, '');
    this.#before = this.#state();
  }

  static async make(): Promise<Bait> {
    return new Bait(await mkdtemp(join(tmpdir(), 'squash-bait-')));
  }

  /** Something happens in the folder: who watches it hears the secret name. */
  stir(): void {
    utimesSync(this.#listedFile, new Date(), new Date());
  }

  isTouched(): boolean {
    return this.#state() !== this.#before;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(join(this.folder, '..'), { recursive: true, force: true });
  }

  #state(): string {
    const names = readdirSync(this.folder);
    const modes = [this.folder, ...names.map((name) => join(this.folder, name))].map(
      (path) => statSync(path).mode,
    );
    const canary = names.includes('canary') ? readFileSync(this.canaryFile, 'latin1') : 'gone';
    return JSON.stringify([names.sort(), modes, canary]);
  }
}

const randomWord = (): string => `bait-${randomBytes(8).toString('hex')}`;

export function sizeText(bytes: number): string {
  return `size=${String(bytes)};`;
}

export interface FileOutcome {
  readonly isBreach: boolean;
  readonly why: string;
}

/** Prepares, attacks, operates, and looks at what came of it. Nothing of the attempt runs any more afterwards. */
export async function attemptOutcome(
  ground: Ground,
  attempt: FileAttempt,
  operate: FileAttempt['operate'] = attempt.operate,
): Promise<FileOutcome> {
  if (attempt.prepare !== undefined) {
    const prepared = await drain(await begin(ground, attempt.prepare));
    if (prepared.outcome.exitCode !== 0) throw new Error(`not prepared: ${prepared.stderr}`);
  }
  const attacker =
    attempt.meanwhile === undefined
      ? undefined
      : await begin(ground, attempt.meanwhile, attempt.asUser === true && ground.hasUsers ? user : 0);
  const memoryBefore = process.memoryUsage.rss();
  const text = await inTime(operate(ground)).finally(() => attacker?.signal(9));
  if (attacker !== undefined) {
    const { stdout, stderr, outcome } = await drain(attacker);
    // An attacker who was not there to the end proves nothing.
    if (outcome.signal !== 9) throw new Error(`the attacker ended by itself: ${stdout}${stderr}`);
  }
  const found = [...ground.bait.secrets, ...ground.secrets].find((secret) => text.includes(secret));
  if (found !== undefined) return { isBreach: true, why: `${found} came out` };
  if (text.includes(hungText)) return { isBreach: true, why: 'the operation hangs' };
  if (text.includes(harmText)) return { isBreach: true, why: text };
  if (ground.bait.isTouched()) return { isBreach: true, why: 'the bait was touched' };
  if (process.memoryUsage.rss() - memoryBefore > growthBytesMax)
    return { isBreach: true, why: 'the client grew' };
  await waitFor('the workers to end with their operations', async () => (await workers(ground)) === 0);
  return { isBreach: false, why: text.slice(-300) };
}

async function inTime(operation: Promise<string>): Promise<string> {
  const giveUp = new AbortController();
  const deadline = delay(operationMsMax, hungText, { signal: giveUp.signal }).catch(() => hungText);
  try {
    return await Promise.race([operation, deadline]);
  } finally {
    giveUp.abort();
  }
}

/** What an operation returns that found harm by itself. */
export const harmText = 'harm: ';
const hungText = 'hung: no answer in time';

/** A script as root there, or as another user, in the attempt's directory. */
export function begin(ground: Ground, script: string, uid = 0): Promise<GuestExec> {
  const { bait, directory, tool } = ground;
  const env = {
    PATH: '/usr/sbin:/usr/bin:/sbin:/bin',
    A: tool,
    S: bait.secretFile,
    C: bait.canaryFile,
    F: bait.folder,
  };
  return ground.guest.exec(specOf(['/bin/sh', '-c', script], { uid, gid: uid, cwd: directory, env }));
}

/** What a careless implementation would do: a shell's own words, ended when it hangs. */
export async function careless(ground: Ground, script: string): Promise<string> {
  const exec = await begin(ground, script);
  const giveUp = new AbortController();
  let isHung = false;
  const watchdog = delay(1_000, undefined, { signal: giveUp.signal }).then(
    () => {
      isHung = true;
      exec.signal(9);
    },
    () => undefined,
  );
  const { stdout, stderr } = await drain(exec);
  giveUp.abort();
  await watchdog;
  return `${stdout}${stderr}${isHung ? hungText : ''}`;
}

/** Processes of squash-init that are not PID 1: those of file operations. */
async function workers(ground: Ground): Promise<number> {
  const count = "grep -lx squash-init /proc/[0-9]*/comm | grep -vc '^/proc/1/'";
  return Number((await drain(await begin(ground, count))).stdout);
}
