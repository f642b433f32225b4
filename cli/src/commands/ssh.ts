/**
 * `squash ssh`: becomes the user's OpenSSH client, which starts `squash ssh --stdio` and speaks SSH to it over a pipe.
 *
 * So nothing listens anywhere, and whoever may use the API with his credential may use this, with his own configuration of SSH.
 */
import { accessSync, constants, statSync } from 'node:fs';
import { join } from 'node:path';
import type { DaemonInfo } from '@squash/contract/daemon';
import { reachableSocketPath } from '../client/address.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import { printJson, printLine } from '../output/print.ts';
import { projectPath } from '../places.ts';
import { configLines, hostSuffix, identity, sshOptions, writeConfig } from '../ssh-config.ts';

export async function run(call: Call): Promise<number> {
  const { flags, positionals } = call;
  const [target] = positionals;
  if (flags.isSet('config') || flags.text('write') !== undefined) return await configure(call);
  if (flags.isSet('fingerprint')) return await showGateway(call);
  if (target === undefined) throw usageFailure('<id> is missing; try: squash help ssh');
  return flags.isSet('stdio') ? await serve(call, withoutSuffix(target)) : await becomeClient(call, target);
}

async function configure(call: Call): Promise<number> {
  if (call.positionals.length > 0) throw usageFailure('the lines are for all sandboxes: no id');
  const lines = configLines([projectPath('squash'), ...daemonWords(call)], await identity());
  const file = call.flags.text('write');
  if (file === undefined) printLine(lines.join('\n'));
  else writeConfig(file, lines);
  return exitCodes.ok;
}

async function showGateway({ client, json }: Call): Promise<number> {
  const { ssh } = await client.get<DaemonInfo>('/v1/info');
  if (ssh === null || ssh === undefined)
    throw new CliFailure(
      'no_gateway',
      'the daemon has no SSH gateway: SQUASH_SSH_PORT starts one; squash ssh needs none',
    );
  if (json) printJson(ssh);
  else printLine(`${ssh.fingerprint} ${ssh.host}:${ssh.port}`);
  return exitCodes.ok;
}

/** Over our standard streams, to their end. */
async function serve({ client }: Call, sandbox: string): Promise<number> {
  const { Daemon, ApiError, sandboxPath } = await import('@squash/ssh/daemon');
  const { serveStdio } = await import('@squash/ssh/stdio');
  const { address } = client;
  const place =
    address.kind === 'unix' ? { ...address, path: reachableSocketPath(address.path).path } : address;
  using daemon = new Daemon(place, client.token);
  try {
    // A sandbox that is not there is told here, where the sentence reaches the user.
    await daemon.json({ method: 'GET', path: sandboxPath(sandbox) });
  } catch (cause) {
    throw cause instanceof ApiError ? new CliFailure(cause.code, cause.message) : cause;
  }
  const { hostKey } = await identity();
  await serveStdio({ daemon, sandbox, hostKey });
  return exitCodes.ok;
}

async function becomeClient(call: Call, target: string): Promise<number> {
  const at = target.lastIndexOf('@');
  const user = at < 0 ? 'root' : target.slice(0, at);
  const sandbox = withoutSuffix(target.slice(at + 1));
  // What begins with a dash would be an option of ssh's.
  if (!/^[\w-]{1,64}$/.test(sandbox) || sandbox.startsWith('-'))
    throw usageFailure(`"${target}" names no sandbox`);
  const proxy = [
    process.execPath,
    process.argv[1] ?? projectPath('cli/bin/squash.cjs'),
    ...daemonWords(call),
  ];
  const words = sshOptions(proxy, sandbox, await identity()).flatMap((option) => ['-o', option]);
  const token = call.flags.text('token');
  const env = { ...environment(), ...(token === undefined ? {} : { SQUASH_AUTH_TOKEN: token }) };
  // Its terminal, its signals and its exit code need no go-between.
  process.execve?.(sshProgram(), ['ssh', ...words, '-l', user, `${sandbox}${hostSuffix}`, ...call.rest], env);
  throw new CliFailure('unsupported', 'this Node can not replace its process; Node 24 can');
}

/** The daemon that this call names, for another call. A token is not among them: everybody reads words. */
function daemonWords({ flags }: Call): readonly string[] {
  return ['url', 'socket'].flatMap((name) => {
    const value = flags.text(name);
    return value === undefined ? [] : [`--${name}`, value];
  });
}

function withoutSuffix(target: string): string {
  return target.endsWith(hostSuffix) ? target.slice(0, -hostSuffix.length) : target;
}

function sshProgram(): string {
  for (const directory of (process.env['PATH'] ?? '').split(':')) {
    const path = join(directory === '' ? '.' : directory, 'ssh');
    try {
      accessSync(path, constants.X_OK);
      if (statSync(path).isFile()) return path;
    } catch {
      // Not here: the next directory may have it.
    }
  }
  throw new CliFailure('ssh_missing', 'there is no ssh in PATH: install openssh-client', exitCodes.notFound);
}

function environment(): Record<string, string> {
  const pairs = Object.entries(process.env).filter((pair): pair is [string, string] => pair[1] !== undefined);
  return Object.fromEntries(pairs);
}
