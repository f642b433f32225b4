/**
 * Turns one variable's text into a value of its kind, or says what is wrong with it.
 *
 * The sentences never quote a secret; everything else is quoted, because a typing error is seen only then.
 */
import { isIP } from 'node:net';
import type { Setting } from '@squash/contract/config';
import { formatPattern, parsePattern } from '@squash/contract/destination';

export type SettingValue = string | number | boolean | readonly string[];
export type ParsedSetting =
  | { readonly ok: true; readonly value: SettingValue }
  | { readonly ok: false; readonly problem: string };

const hostName =
  /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*\.?$/i;
/** What people write for yes and no; anything else is refused, because `SQUASH_X=ture` must not mean no. */
const flagWords: Readonly<Record<string, boolean>> = {
  '1': true,
  true: true,
  yes: true,
  on: true,
  '0': false,
  false: false,
  no: false,
  off: false,
  '': false,
};

export function parseSetting(setting: Setting, text: string): ParsedSetting {
  const { kind } = setting;
  switch (kind.type) {
    case 'text':
    case 'path':
      return text.includes('\0') ? wrong('contains a NUL byte') : right(text);
    case 'secret':
      // A token with a line break or a space can't be sent in a header: better to say so than to refuse all.
      return /^[\x21-\x7e]*$/.test(text)
        ? right(text)
        : wrong('contains a space or a character that no HTTP header can carry');
    case 'flag': {
      const value = flagWords[text.toLowerCase()];
      return value === undefined ? wrong(`is "${text}": write 1 or 0`) : right(value);
    }
    case 'host':
      return isHost(text) ? right(bare(text)) : wrong(`is "${text}": neither an IP address nor a host name`);
    case 'domain':
      return text === '' || (hostName.test(text) && isIP(text) === 0)
        ? right(text.toLowerCase().replace(/\.$/, ''))
        : wrong(`is "${text}", which is no domain`);
    case 'bucket':
      return text === '' || /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(text)
        ? right(text)
        : wrong(`is "${text}", which is no name of a bucket`);
    case 'url':
      return parseUrl(text);
    case 'hosts':
      return parseHosts(text);
    case 'port':
      if (text === 'off') return right('off');
      return parseInteger(text, { min: 0, max: 65_535 }, ', or off');
    case 'integer':
      return parseInteger(text, kind, '');
    case 'ranges':
      return parseRanges(text);
    case 'servers':
      return parseServers(text);
    case 'registries':
      return parseRegistries(text);
    case 'choice':
      return kind.choices.includes(text)
        ? right(text)
        : wrong(`is "${text}": choose one of ${kind.choices.join(', ')}`);
  }
}

function right(value: SettingValue): ParsedSetting {
  return { ok: true, value };
}

function wrong(problem: string): ParsedSetting {
  return { ok: false, problem };
}

function parseInteger(
  text: string,
  range: { readonly min: number; readonly max: number },
  more: string,
): ParsedSetting {
  const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  return value >= range.min && value <= range.max
    ? right(value)
    : wrong(`is "${text}": write a whole number from ${range.min} to ${range.max}${more}`);
}

/** Of a list with commas. */
function wordsOf(text: string): readonly string[] {
  return text
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '');
}

/** The text may hold a password, so it is not quoted. */
function parseUrl(text: string): ParsedSetting {
  if (text === '') return right(text);
  const url = URL.parse(text);
  const isPlain =
    url !== null && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/` && !/\s/.test(text);
  return isPlain
    ? right(url.origin)
    : wrong('is no address such as https://s3.example:9000, with neither a user nor a path');
}

function parseHosts(text: string): ParsedSetting {
  const names = wordsOf(text.toLowerCase());
  const bad = names.find((name) => !isHost(name.replace(/^\*\./, '')));
  return bad === undefined ? right(names.map(bare)) : wrong(`contains "${bad}", which is no host name`);
}

function parseRegistries(text: string): ParsedSetting {
  const names = wordsOf(text.toLowerCase());
  const bad = names.find((name) => URL.parse(`http://${name}`)?.host !== name.replace(/:80$/, ''));
  return bad === undefined ? right(names) : wrong(`contains "${bad}": write hosts such as localhost:5000`);
}

/** As Node's resolver takes them. */
function parseServers(text: string): ParsedSetting {
  const servers: string[] = [];
  for (const word of wordsOf(text)) {
    const parsed = parsePattern(word);
    const isServer =
      parsed.ok &&
      parsed.pattern.target.kind === 'network' &&
      /\/(32|128)$/.test(parsed.pattern.target.range);
    if (!isServer || parsed.pattern.ports?.first !== parsed.pattern.ports?.last) {
      return wrong(`contains "${word}": write addresses such as 192.0.2.53 or [2001:db8::53]:53`);
    }
    servers.push(formatPattern(parsed.pattern));
  }
  return right(servers);
}

function parseRanges(text: string): ParsedSetting {
  const ranges: string[] = [];
  for (const word of wordsOf(text)) {
    const parsed = parsePattern(word);
    const isRange =
      parsed.ok && parsed.pattern.target.kind === 'network' && parsed.pattern.ports === undefined;
    if (!isRange)
      return wrong(
        `contains "${word}": ${parsed.ok ? 'write ranges such as 10.0.0.0/8' : `it ${parsed.problem}`}`,
      );
    ranges.push(parsed.pattern.target.range);
  }
  return right(ranges);
}

function isHost(text: string): boolean {
  return isIP(bare(text)) !== 0 || hostName.test(text);
}

/** An IPv6 address may be written in brackets, as in a URL. */
function bare(text: string): string {
  return text.replace(/^\[(.*)\]$/, '$1');
}
