/**
 * The words that policies and secrets name destinations by: `host`, `*.host`, `address`, `range/length`, each with an
 * optional `:port`, `*` for everything public, `preset:name`. One parser, so that no two places read a word differently.
 *
 * What a newcomer would get wrong: a host that looks like a number is refused, not resolved. `127.1`, `0x7f.1` and
 * `2130706433` are 127.0.0.1 to some programs and a name to others; a policy must mean one thing.
 */

export type Target =
  /** Every public host and address. */
  | { readonly kind: 'any' }
  /** Lower case, A-labels, no trailing dot. */
  | { readonly kind: 'host'; readonly host: string }
  /** Names below `host`, at any depth; not `host` itself. */
  | { readonly kind: 'subdomains'; readonly host: string }
  /** Canonical text with its length, `192.0.2.0/24`; one address is `/32` or `/128`. */
  | { readonly kind: 'network'; readonly range: string }
  | { readonly kind: 'preset'; readonly preset: string };

/** Both ends belong to it. */
export interface PortRange {
  readonly first: number;
  readonly last: number;
}

export interface DestinationPattern {
  readonly target: Target;
  /** Undefined: every port. */
  readonly ports: PortRange | undefined;
}

export type ParsedPattern =
  | { readonly ok: true; readonly pattern: DestinationPattern }
  /** Says what is wrong with the word; does not repeat it. */
  | { readonly ok: false; readonly problem: string };

/** The word that allows nothing; stands alone. */
export const nothing = 'none';
/** The word that allows every public host and address. */
export const everythingPublic = '*';

/** A service on the host's loopback: the word of a policy and the name that a program says. No DNS is asked for it. */
export const hostServiceName = 'host.squash.internal';
/** A port of whoever offers it over the API: the word of a policy and the name that a program says. It has no address. */
export const callerServiceName = 'caller.squash.internal';

/** Names that no DNS is asked for and no proxy gets. Neither `*` nor a wildcard means one, and each needs its port. */
export function isServiceName(host: string | undefined): boolean {
  return host === hostServiceName || host === callerServiceName;
}

/** A name of the loopback, which in a sandbox is the sandbox's own. */
export function isLoopbackName(host: string): boolean {
  return /^(?:(?:.*\.)?localhost|localhost\.localdomain|ip6-localhost|ip6-loopback)$/.test(host);
}

/** A name of DNS has 253 characters at most; the rest is `*.`, `:65535` and room for a U-label that shrinks. */
export const patternCharsMax = 320;

class Malformed extends Error {}

/** @param text one word as a person or program wrote it */
export function parsePattern(text: string): ParsedPattern {
  try {
    return { ok: true, pattern: parse(text) };
  } catch (error) {
    if (error instanceof Malformed) return { ok: false, problem: error.message };
    throw error;
  }
}

/** The canonical spelling; parsing it again gives the same pattern. */
export function formatPattern({ target, ports }: DestinationPattern): string {
  const port =
    ports === undefined
      ? ''
      : ports.first === ports.last
        ? `:${ports.first}`
        : `:${ports.first}-${ports.last}`;
  switch (target.kind) {
    case 'any':
      return `*${port}`;
    case 'host':
      return `${target.host}${port}`;
    case 'subdomains':
      return `*.${target.host}${port}`;
    case 'preset':
      return `preset:${target.preset}`;
    case 'network': {
      const plain = target.range.replace(target.range.includes(':') ? /\/128$/ : /\/32$/, '');
      return port !== '' && plain.includes(':') ? `[${plain}]${port}` : `${plain}${port}`;
    }
  }
}

function parse(text: string): DestinationPattern {
  if (text === '') throw new Malformed('is empty');
  if (text.length > patternCharsMax) throw new Malformed(`is longer than ${patternCharsMax} characters`);
  if (/[\p{Cc}\s]/u.test(text)) throw new Malformed('contains a space or a control character');
  if (text.includes('://'))
    throw new Malformed('is a URL: write its host only, such as "api.example.com:443"');
  if (text.startsWith('preset:')) return parsePreset(text.slice('preset:'.length));
  const [place, port] = split(text);
  return { target: parseTarget(place), ports: port === undefined ? undefined : parsePorts(port) };
}

function parsePreset(name: string): DestinationPattern {
  if (!/^[a-z0-9][a-z0-9-]{0,63}$/.test(name)) {
    throw new Malformed('names no preset: write "preset:debian", for example; a preset brings its own ports');
  }
  return { target: { kind: 'preset', preset: name }, ports: undefined };
}

/** Takes the port off. An IPv6 address has colons of its own, so with a port it stands in brackets. */
function split(text: string): readonly [place: string, port: string | undefined] {
  if (text.startsWith('[')) {
    const match = /^\[([^\]]*)\](?::(.*))?$/.exec(text);
    if (match?.[1]?.includes(':') !== true) {
      throw new Malformed('has brackets that hold no IPv6 address: write "[2001:db8::1]:443"');
    }
    return [match[1], match[2]];
  }
  const colons = text.split(':').length - 1;
  if (colons !== 1) return [text, undefined];
  const at = text.indexOf(':');
  return [text.slice(0, at), text.slice(at + 1)];
}

/** `443` or `8000-8999`. */
export function parsePorts(text: string): PortRange {
  const match = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(text);
  const first = Number(match?.[1] ?? 0);
  const last = Number(match?.[2] ?? first);
  if (first < 1 || last > 65_535 || last < first) {
    throw new Malformed(
      `has the port "${text}": write a number from 1 to 65535 or a range such as "8000-8999"`,
    );
  }
  return { first, last };
}

function parseTarget(place: string): Target {
  if (place === '*') return { kind: 'any' };
  if (place.includes(':') || place.includes('/') || /^[\d.]+$/.test(place)) {
    return { kind: 'network', range: parseRange(place) };
  }
  if (place.startsWith('*.')) {
    const host = parseHost(place.slice(2));
    return { kind: 'subdomains', host };
  }
  if (place.includes('*'))
    throw new Malformed('has a "*" elsewhere than at its beginning: write "*.example.com"');
  return { kind: 'host', host: parseHost(place) };
}

/**
 * A host name in the form that DNS and TLS carry: lower case, A-labels, no trailing dot.
 * @throws Malformed
 */
function parseHost(text: string): string {
  const bare = text.endsWith('.') ? text.slice(0, -1) : text;
  if (bare === '') throw new Malformed('names no host');
  // What URLs would decode or cut off; letters of other scripts are left to IDNA.
  if (/[\p{ASCII}]/u.test(bare) && /[^a-zA-Z0-9._\-\u0080-\u{10ffff}]/u.test(bare)) {
    throw new Malformed('is no host name: letters, digits, "-", "_" and "." only');
  }
  let host: string;
  try {
    ({ hostname: host } = new URL(`http://${bare}/`));
  } catch {
    throw new Malformed('is no host name');
  }
  if (/^[\d.]+$/.test(host)) {
    throw new Malformed(`is a number that some programs read as ${host}: write the address`);
  }
  const labels = host.split('.');
  if (host.length > 253 || labels.some((label) => label === '' || label.length > 63)) {
    throw new Malformed('is no host name: labels have 1 to 63 characters, the whole 253 at most');
  }
  return host;
}

/** The canonical `address/length`. @throws Malformed */
function parseRange(text: string): string {
  const [address = '', length, ...more] = text.split('/');
  if (!/^[0-9a-fA-F:.]*$/.test(address)) {
    throw new Malformed(
      'has a path or is no address: write the host only, or a range such as "192.0.2.0/24"',
    );
  }
  const parsed = address.includes(':') ? parseV6(address) : parseV4(address);
  const bits = parsed.family === 4 ? 32 : 128;
  if (more.length > 0 || (length !== undefined && !/^(0|[1-9]\d{0,2})$/.test(length))) {
    throw new Malformed('is no range of addresses: write "192.0.2.0/24"');
  }
  const kept = Number(length ?? bits);
  if (kept > bits) throw new Malformed(`has the length /${kept}: ${bits} is the most`);
  const network = (parsed.value >> BigInt(bits - kept)) << BigInt(bits - kept);
  if (network !== parsed.value) {
    throw new Malformed(`has bits beyond its length: write ${format(parsed.family, network)}/${kept}`);
  }
  return unmap(parsed.family, network, kept);
}

/** `::ffff:192.0.2.1` reaches 192.0.2.1, so it means the same here. */
function unmap(family: 4 | 6, network: bigint, kept: number): string {
  if (family === 6 && kept >= 96 && network >> 32n === 0xffffn) {
    return `${format(4, network & 0xffff_ffffn)}/${kept - 96}`;
  }
  return `${format(family, network)}/${kept}`;
}

interface Parsed {
  readonly family: 4 | 6;
  readonly value: bigint;
}

function parseV4(text: string): Parsed {
  const parts = text.split('.');
  if (parts.length !== 4 || parts.some((part) => !/^(0|[1-9]\d{0,2})$/.test(part) || Number(part) > 255)) {
    throw new Malformed('is neither an IPv4 address nor a host name: write four numbers, "192.0.2.1"');
  }
  return { family: 4, value: parts.reduce((sum, part) => (sum << 8n) | BigInt(part), 0n) };
}

function parseV6(text: string): Parsed {
  let canonical: string;
  try {
    if (!/^[0-9a-fA-F:.]+$/.test(text)) throw new Malformed('is no IPv6 address');
    // The one parser of IPv6 text that every JavaScript has.
    canonical = new URL(`http://[${text}]/`).hostname.slice(1, -1);
  } catch {
    throw new Malformed('is no IPv6 address: write "2001:db8::1", with a port "[2001:db8::1]:443"');
  }
  const [head = '', tail] = canonical.split('::');
  const groups = (part: string): string[] => (part === '' ? [] : part.split(':'));
  const front = groups(head);
  const back = tail === undefined ? [] : groups(tail);
  const zeros: string[] = Array.from({ length: 8 - front.length - back.length }, () => '0');
  const value = [...front, ...zeros, ...back].reduce((sum, group) => (sum << 16n) | BigInt(`0x${group}`), 0n);
  return { family: 6, value };
}

function format(family: 4 | 6, value: bigint): string {
  if (family === 4) return [24n, 16n, 8n, 0n].map((shift) => `${(value >> shift) & 0xffn}`).join('.');
  const groups = Array.from({ length: 8 }, (_, at) =>
    ((value >> BigInt(112 - 16 * at)) & 0xffffn).toString(16),
  );
  return new URL(`http://[${groups.join(':')}]/`).hostname.slice(1, -1);
}
