/**
 * The operator's program that sets and removes the record by which an authority sees whose a domain is. It is called as the provider
 * `exec` of lego calls one: `PROGRAM present|cleanup NAME VALUE`.
 *
 * It runs in a session of its own: a Ctrl-C of the terminal is for us, who end it in order and have it clean up.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { CertificateFailure, quoted } from './failure.ts';

export interface DnsRecord {
  /** With the dot at its end. */
  readonly name: string;
  readonly value: string;
}

interface HookCall {
  readonly program: string;
  readonly verb: 'present' | 'cleanup';
  readonly record: DnsRecord;
}

/** A provider's API, and a record that the hook itself waits for. */
const hookMsMax = 300_000;
/** From SIGTERM to SIGKILL. */
const graceMs = 5_000;
/** Its output may be held open by a process that it has left behind. */
const lastWordsMs = 1_000;
const saidCharsMax = 65_536;

/** @throws dns_hook_failed with what it said; also where `signal` ends it */
export async function callHook({ program, verb, record }: HookCall, signal: AbortSignal): Promise<void> {
  const bound = AbortSignal.any([signal, AbortSignal.timeout(hookMsMax)]);
  const failed = (how: string, said = ''): CertificateFailure =>
    new CertificateFailure(
      'dns_hook_failed',
      `the DNS hook "${program}" ${how} at "${verb} ${record.name}"${said === '' ? '' : `: ${quoted(said)}`}`,
    );
  if (bound.aborted) throw failed('was not started');
  const child = spawn(program, [verb, record.name, record.value], {
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-saidCharsMax);
    });
  }
  const how = await endOf(child, bound);
  if (signal.aborted) throw failed('was interrupted', said);
  if (bound.aborted) throw failed(`did not end within ${hookMsMax / 1000} s`, said);
  if (how !== undefined) throw failed(how, said);
}

/** How it failed; undefined where it did not. */
async function endOf(child: ChildProcess, bound: AbortSignal): Promise<string | undefined> {
  let late: NodeJS.Timeout | undefined;
  const end = (): void => {
    signalGroup(child, 'SIGTERM');
    late = setTimeout(() => signalGroup(child, 'SIGKILL'), graceMs);
  };
  bound.addEventListener('abort', end, { once: true });
  try {
    return await new Promise((resolve) => {
      child.once('error', (error) => resolve(`can not be started (${error.message})`));
      child.once('exit', () => {
        late ??= setTimeout(() => {
          child.stdout?.destroy();
          child.stderr?.destroy();
        }, lastWordsMs);
      });
      child.once('close', (code, signal) =>
        resolve(code === 0 ? undefined : `ended with ${signal ?? `code ${code}`}`),
      );
    });
  } finally {
    clearTimeout(late);
    bound.removeEventListener('abort', end);
  }
}

/** Only while it is not reaped: its number is nobody else's as long. */
function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) {
    child.stdout?.destroy();
    child.stderr?.destroy();
    return;
  }
  try {
    process.kill(-child.pid, signal);
  } catch {
    // It ended meanwhile.
  }
}
