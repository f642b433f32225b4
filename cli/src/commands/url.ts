/** `squash url`: the address of a port, with a token unless everybody may see it. */
import { limits } from '@squash/contract/limits';
import type { Port, PortLink } from '@squash/contract/ports';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import { printJson, printLine } from '../output/print.ts';
import { parsePort, portPath } from './ports.ts';

export async function run(call: Call): Promise<number> {
  const answer = await linkOf(call, wishedAccess(call));
  if (call.json) printJson(answer);
  else printLine(answer.url ?? notServed());
  return exitCodes.ok;
}

/** Shared with `open`. */
export async function linkOf(call: Call, access?: 'public' | 'token'): Promise<Port | PortLink> {
  const [id = '', portText = ''] = call.positionals;
  const port = parsePort(portText);
  const expiresS = parseExpiry(call.flags.text('expires'));
  if (access === 'public' && expiresS !== undefined)
    throw usageFailure('--expires is for links with a token: leave out --public');
  const waitS = call.flags.number('wait', { min: 0, max: limits.portWaitMsMax / 1_000 });
  if (waitS !== undefined) {
    const path = portPath(id, port, ['wait']);
    await call.client.get<Port>(`${path}?timeout_ms=${Math.round(waitS * 1_000)}`);
  }
  const set = access === undefined ? undefined : await call.client.put<Port>(portPath(id, port), { access });
  const answer =
    access === 'public' && set !== undefined
      ? set
      : await call.client.post<PortLink>(
          portPath(id, port, ['url']),
          expiresS === undefined ? {} : { expires_s: expiresS },
        );
  // What opens addresses starts a program for `file:` and for many others, and whoever answers need be no daemon.
  if (answer.url !== null && !/^https?:\/\/[^\s\p{Cc}\p{Cf}]+$/u.test(answer.url))
    throw new CliFailure('not_served', `the daemon answers "${answer.url}", which is no page`);
  return answer;
}

function wishedAccess({ flags }: Call): 'public' | 'token' | undefined {
  if (flags.isSet('public') && flags.isSet('private'))
    throw usageFailure('--public and --private exclude each other');
  if (flags.isSet('public')) return 'public';
  return flags.isSet('private') ? 'token' : undefined;
}

const unitsS: Readonly<Record<string, number>> = { '': 1, s: 1, m: 60, h: 3_600, d: 86_400 };

function parseExpiry(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const [, digits = '', unit = ''] = /^(\d{1,9})([smhd]?)$/.exec(text) ?? [];
  const seconds = Number(digits) * (unitsS[unit] ?? 1);
  if (digits !== '' && seconds >= 1 && seconds <= limits.previewLinkSMax) return seconds;
  throw usageFailure(`--expires takes a time such as 90, 15m, 2h or 7d, at most 30d, not "${text}"`);
}

export function notServed(): never {
  throw new CliFailure(
    'not_served',
    'the daemon listens on its Unix socket alone: set SQUASH_PORT',
    exitCodes.failed,
  );
}
