/**
 * What an attempt is, and how its outcome is read. The tables in `attempts/` are lists of these; the same row is
 * run in a real sandbox, where a breach fails the test, and in a weakened one, where anything else does.
 */

export const attackClasses = [
  'host-paths',
  'mount',
  'namespaces',
  'processes',
  'devices',
  'keyrings',
  'kernel',
  'sockets',
  'daemon',
  'neighbours',
  'environment',
  'pid1',
  'sysctl',
  'cgroups',
  'privileges',
  'overlay',
  'memory',
  'disk',
  'exhaustion',
] as const;
export type AttackClass = (typeof attackClasses)[number];

/** What stands outside the sandbox, for the attacker to find. */
export interface Surroundings {
  /** A file of the host that holds a secret, and one that must not change. */
  readonly secretFile: string;
  readonly dataDir: string;
  readonly repository: string;
  /** A process of the host with a secret in its environment. */
  readonly victimPid: number;
  /** The word in the victim's command line. */
  readonly victimWord: string;
  /** Abstract Unix socket, TCP port (also the key of a shared-memory segment) of the host. */
  readonly hostSocket: string;
  readonly hostPort: number;
  /** The same in the neighbouring sandbox, in the weakened case on the host. */
  readonly neighbourSocket: string;
  readonly neighbourPort: number;
  readonly neighbourWord: string;
  readonly apiPort: number;
  /** Limits of the attacked sandbox. */
  readonly memoryMb: number;
  readonly upperMb: number;
  readonly pidsMax: number;
}

/**
 * Where the attempt must succeed: `namespaces` is root of the machine with mount, UTS and PID namespaces of its
 * own and nothing else in the way; `shared` is without the PID namespace; `chroot` is a bare chroot.
 */
export type WeakKind = 'namespaces' | 'shared' | 'chroot';

export interface Attempt {
  /** Never reused: names the attempt in reports. */
  readonly id: string;
  readonly class: AttackClass;
  /** A shell script. `$A` is the attack tool; the working directory is empty and writable. */
  readonly run: (around: Surroundings) => string;
  /** The code of the warning at create that takes the promise back, where this host has no such limit. */
  readonly unless?: 'memory_limit';
  readonly control:
    | { readonly kind: WeakKind; readonly optional?: string; readonly run?: (around: Surroundings) => string }
    /** Why it can't succeed anywhere on this machine and is tried all the same. */
    | { readonly kind: 'none'; readonly because: string };
}

export interface AttemptOutput {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

export type Outcome = 'breach' | 'held' | 'untried' | 'broken';

const exitBreach = 66;
const exitUntried = 77;

/**
 * A secret in the output is a breach whatever the attacker's program says of itself. An attempt that did not
 * come to its end is broken: silence is no proof of a wall. One that was killed for trying is held.
 */
export function outcomeOf(script: string, output: AttemptOutput, secrets: readonly string[]): Outcome {
  const text = output.stdout + output.stderr;
  if (secrets.some((secret) => text.includes(secret))) return 'breach';
  if (/^breach: /m.test(text) || output.exitCode === exitBreach) return 'breach';
  if (output.exitCode === exitUntried) return 'untried';
  if (output.exitCode === 126 || output.exitCode === 127 || output.exitCode === 2) return 'broken';
  if (script.includes('$A') && !/^held: /m.test(text) && output.exitCode < 128) return 'broken';
  return 'held';
}

type ScriptOf = string | ((around: Surroundings) => string);

/** Makes rows of one class; without a control of its own a row has the common one. */
export function attemptsOf(attackClass: AttackClass) {
  return (id: string, script: ScriptOf, control: Attempt['control'] = { kind: 'namespaces' }): Attempt => ({
    id,
    class: attackClass,
    run: typeof script === 'string' ? () => script : script,
    control,
  });
}
