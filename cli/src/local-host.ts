/**
 * Runs one of the daemon's own entries on this machine, for what must work where no daemon runs.
 *
 * The CLI knows their paths and this much: JSON on standard output, or `{"error": {code, message}}` and a
 * non-zero exit. Their progress and warnings go to standard error, which is ours.
 */
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { CliFailure } from './failure.ts';
import { nativePath, projectPath } from './places.ts';

const loader = projectPath('base/bin/built.cjs');
/** What Node is given to run it. */
export const hostEntries = {
  serve: [loader, projectPath('host/src/serve.ts')],
  offline: [loader, projectPath('host/src/offline.ts')],
} as const;

/** Whether what they start is built as its sources are. */
export function isBuilt(source: string): boolean {
  const { startsFresh } = createRequire(import.meta.url)(loader) as {
    readonly startsFresh: (source: string) => boolean;
  };
  return startsFresh(source);
}

/** What makes namespaces, by which AppArmor knows it. */
export const launchProgram = nativePath('squash-launch');

/** `prepare` (the data directory), `place` (the same, for a certificate), `probe`, `config`, `repair` or `stop`. */
export async function askOffline<T>(verb: string): Promise<T> {
  const child = spawn(process.execPath, [...hostEntries.offline, verb], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const parts: Buffer[] = [];
  child.stdout.on('data', (part: Buffer) => parts.push(part));
  await new Promise<void>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', () => resolve());
  });
  const answer = parse(Buffer.concat(parts).toString('utf8'));
  const error = answer?.['error'];
  if (typeof error === 'object' && error !== null) {
    const { code, message } = error as { readonly code?: unknown; readonly message?: unknown };
    throw new CliFailure(String(code), String(message));
  }
  if (answer === undefined) {
    throw new CliFailure(
      'internal',
      `${verb} ended with ${child.signalCode ?? `code ${child.exitCode}`} and no answer`,
    );
  }
  return answer as T;
}

function parse(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    return JSON.parse(text) as Readonly<Record<string, unknown>>;
  } catch {
    // It died before it could answer; the caller says so.
    return undefined;
  }
}
