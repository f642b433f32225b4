/** `--unix-socket`: Unix sockets of this machine that a box reaches, and the ssh-agent among them, which it never reaches itself. */
import { lstatSync } from 'node:fs';
import { absolutePath, canonical } from '@squash/box/host-paths';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import type { AgentWish } from './agent-filter.ts';

export interface SocketWish {
  /** Canonical. */
  readonly paths: readonly string[];
  readonly agent: AgentWish | undefined;
}

/** @throws usage where one is not there */
export function readSockets(
  words: readonly string[],
  place: { readonly cwd: string; readonly home: string },
): SocketWish {
  const { SSH_AUTH_SOCK: own } = process.env;
  const agentPath = own === undefined || own === '' ? undefined : canonical(own);
  const paths: string[] = [];
  const keys: (string | undefined)[] = [];
  for (const word of words) {
    const [, key] = /^(?:ssh-agent|\$SSH_AUTH_SOCK)(?:=(.+))?$/s.exec(word) ?? [undefined, ''];
    if (key !== '') keys.push(key);
    else {
      const path = socketPath(word, place);
      if (path === agentPath) keys.push(undefined);
      else paths.push(path);
    }
  }
  if (keys.length === 0) return { paths: [...new Set(paths)], agent: undefined };
  if (agentPath === undefined)
    throw new CliFailure(
      'agent_unreachable',
      'there is no ssh-agent: SSH_AUTH_SOCK names no socket; to start one: eval "$(ssh-agent)"',
      exitCodes.execFailed,
    );
  const named = keys.filter((key) => key !== undefined);
  const agent = { socket: agentPath, keys: named.length < keys.length ? undefined : named };
  return { paths: [...new Set(paths)], agent };
}

function socketPath(word: string, place: { readonly cwd: string; readonly home: string }): string {
  const path = canonical(absolutePath(word, place));
  if (path === undefined || lstatSync(path, { throwIfNoEntry: false })?.isSocket() !== true)
    throw usageFailure(`there is no socket "${word}"`);
  return path;
}
