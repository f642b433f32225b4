/**
 * `squash serve`, stage one: still outside, with the rights of whoever called. Reads the configuration, makes the
 * data directory, and becomes `squash-launch enter`, which joins or makes the namespaces and becomes the daemon.
 *
 * The process id stays the same through all of it, so a service manager watches the right process.
 */
import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { AppError } from '@squash/contract/errors';
import { pinnedEnvironment } from './config/config.ts';
import { loadConfig } from './config/load.ts';

const projectDir = fileURLToPath(new URL('../../', import.meta.url));
const architecture = process.arch === 'arm64' ? 'aarch64' : 'x86_64';

/** The words that run `command` inside the daemon's namespaces. */
export function enterCommand(
  place: { readonly dataDir: string; readonly runDir: string },
  command: readonly string[],
): { readonly program: string; readonly words: readonly string[] } {
  const program = `${projectDir}native/build/${architecture}/squash-launch`;
  const words = [program, 'enter', '--data', place.dataDir, '--run', place.runDir, '--app', projectDir];
  return { program, words: [...words, '--', ...command] };
}

function serve(): void {
  const config = loadConfig(process.env, process.cwd());
  // Searchable for all: sandboxes' layers are mounted from below it by ids that are nobody's on the host.
  mkdirSync(config.dataDir, { recursive: true, mode: 0o755 });
  mkdirSync(config.runDir, { recursive: true, mode: 0o755 });
  const main = fileURLToPath(new URL('./main.ts', import.meta.url));
  const { program, words } = enterCommand(config, [process.execPath, main]);
  const env: Record<string, string> = { ...pinnedEnvironment(config) };
  for (const [name, value] of Object.entries(process.env)) {
    if (value !== undefined && env[name] === undefined) env[name] = value;
  }
  process.execve?.(program, [...words], env);
  throw new AppError('internal', `this Node can not become "${program}": Node 24 can`);
}

if (import.meta.main) {
  try {
    serve();
  } catch (error) {
    const code = error instanceof AppError ? error.code : 'internal';
    process.stderr.write(`squash: ${error instanceof Error ? error.message : String(error)} (${code})\n`);
    process.exitCode = 78;
  }
}
