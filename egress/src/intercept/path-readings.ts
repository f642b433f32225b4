/**
 * What a server may take a path for. `/public/..%2fadmin` is a file below `/public` to one server and `/admin` to
 * another; a rule about paths has to hold for every reading.
 *
 * What a newcomer would get wrong: one canonical form is not enough. Whichever is chosen, some server chooses another,
 * so every reading is asked for and each has to be allowed. Ordinary paths have exactly one.
 */

/** Escapes inside escapes are undone this often; a path with more is not judged. */
const decodingsMax = 3;

/** Of a path that has to be read more than once. Servers take 8 KiB at most; ordinary paths may be as long as headers. */
const oddCharsMax = 2_048;

/** Letters that mean themselves everywhere, in segments that end with no dot and no stream of a file. */
const ordinary =
  /^(?:\/(?:\.{3,}|(?![^/]*:\$)[A-Za-z0-9\-._~!$&'()*+,=:@]*[A-Za-z0-9\-_~!$&'()*+,=:@]))*\/?$/;

/** Escapes that no standard knows and some servers do: `%u002f`, and bytes of UTF-8 that are longer than they need be. */
const foreign = /%u[0-9a-f]{4}|%c[01]%[89ab][0-9a-f]|%e0%[89][0-9a-f]%|%f0%8[0-9a-f]%/i;

/**
 * Normalised, percent-decoded paths without query, most literal first. Undefined: no server could read it in a
 * way that can be judged (control characters, too many layers of escapes, odd at a great length).
 */
export function pathReadings(target: string): readonly string[] | undefined {
  const path = (target.split('?', 1)[0] ?? '').replaceAll(/[\x80-\xff]/g, escapedByte);
  if (path === '*') return ['*'];
  // No client sends one, and some servers end the path there.
  if (!path.startsWith('/') || path.includes('#')) return undefined;
  if (ordinary.test(path)) return [path];
  if (path.length > oddCharsMax) return undefined;
  const readings = new Set<string>();
  let text = path;
  for (let depth = 0; ; depth += 1) {
    if (hasControl(text) || foreign.test(text)) return undefined;
    for (const reading of variants(text)) readings.add(decodeOnce(reading) ?? reading);
    for (const reading of variants(text)) readings.add(reading);
    const decoded = decodeOnce(text);
    if (decoded === undefined || decoded === text) return [...readings];
    if (depth === decodingsMax) return undefined;
    text = decoded;
  }
}

/**
 * With and without the peculiarities of servers: backslashes, parameters of segments, doubled slashes, an end at an undone `#`
 * or `?`, wide letters; and what Windows leaves off a file's name.
 */
function variants(path: string): string[] {
  const slashes = path.replaceAll('\\', '/');
  const bare = slashes.replaceAll(/;[^/]*/g, '');
  const ends = [path, path.split('#', 1), path.split('?', 1)].flat();
  const plain = slashes.normalize('NFKC').replaceAll('\\', '/');
  const file = plain.split('/').map(fileName).join('/');
  const written = [...ends, slashes, bare, plain, file].flatMap((text) => [
    text,
    text.replaceAll(/\/{2,}/g, '/'),
  ]);
  return Array.from(new Set(written), withoutDots);
}

/** Without dots and spaces at its end, and without the name of its first stream. Names that are dots alone stay. */
function fileName(segment: string): string {
  const name = segment.replace(/(?:::\$data|:\$i30:\$index_allocation)$/i, '');
  let end = name.length;
  while (end > 0 && (name[end - 1] === '.' || name[end - 1] === ' ')) end -= 1;
  return end === 0 ? name.replaceAll(' ', '') : name.slice(0, end);
}

/** RFC 3986, 5.2.4, with `%2e` read as a dot. */
function withoutDots(path: string): string {
  const out: string[] = [];
  const segments = path.slice(1).split('/');
  for (const [at, segment] of segments.entries()) {
    const plain = segment.replaceAll(/%2e/gi, '.');
    const isLast = at === segments.length - 1;
    if (plain === '..') out.pop();
    if (plain === '.' || plain === '..') {
      if (isLast) out.push('');
      continue;
    }
    out.push(segment);
  }
  return `/${out.join('/')}`;
}

/** Undefined where nothing is escaped. What is no escape stays as it is. */
function decodeOnce(text: string): string | undefined {
  if (!text.includes('%')) return undefined;
  const bytes = text.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  // A name in UTF-8 is what the rule is written in.
  return Buffer.from(bytes, 'latin1').toString('utf8');
}

/** Bytes that should have been escaped mean what they mean escaped. */
function escapedByte(byte: string): string {
  return `%${byte.charCodeAt(0).toString(16)}`;
}

function hasControl(text: string): boolean {
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code < 0x20 || code === 0x7f) return true;
  }
  return false;
}
