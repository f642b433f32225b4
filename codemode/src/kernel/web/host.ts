/**
 * Part of the guest kernel: the host of a URL, by the URL standard. International names are mapped by NFKC and written in Punycode; IDNA's list of
 * characters that no name may have is not here, as no name is looked up here.
 */
import { percentDecode, percentEncode } from './percent.ts';

/** Undefined where it is none. */
export function parseHost(text: string, isSpecial: boolean): string | undefined {
  if (text.startsWith('[')) {
    const pieces = text.endsWith(']') ? parseIpv6(text.slice(1, -1)) : undefined;
    return pieces === undefined ? undefined : `[${writeIpv6(pieces)}]`;
  }
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the standard's forbidden host code points
  if (!isSpecial) return /[\0\t\n\r #/:<>?@[\\\]^|]/.test(text) ? undefined : percentEncode(text, 'control');
  const name = domainToAscii(percentDecode(text));
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the standard's forbidden domain code points
  if (name === undefined || name === '' || /[\0-\x20#%/:<>?@[\\\]^|\x7f]/.test(name)) return undefined;
  return endsInNumber(name) ? parseIpv4(name) : name;
}

export function domainToAscii(given: string): string | undefined {
  const isAscii = (text: string) => /^[\0-\x7f]*$/.test(text);
  const mapped = isAscii(given)
    ? given.toLowerCase()
    : given
        .replace(/\u00ad|\u200b|\u2060|\ufeff|[\ufe00-\ufe0f]/g, '')
        .normalize('NFKC')
        .replace(/\u03a3/g, '\u03c3')
        .toLowerCase()
        .normalize('NFKC')
        .replace(/[\u3002\uff0e\uff61]/g, '.');
  const labels = mapped.split('.');
  for (let at = 0; at < labels.length; at += 1) {
    const label = labels[at] ?? '';
    if (isAscii(label)) continue;
    if (label.includes('\ufffd')) return undefined;
    labels[at] = `xn--${punycode(label)}`;
  }
  return labels.join('.');
}

/** RFC 3492. */
export function punycode(label: string): string {
  const codes = Array.from(label, (character) => character.codePointAt(0) ?? 0);
  let text = codes.flatMap((code) => (code < 0x80 ? [String.fromCharCode(code)] : [])).join('');
  let done = text.length;
  const basic = done;
  if (basic > 0) text += '-';
  let next = 0x80;
  let delta = 0;
  let bias = 72;
  while (done < codes.length) {
    const code = codes.reduce((least, each) => (each >= next && each < least ? each : least), 0x110000);
    delta += (code - next) * (done + 1);
    next = code;
    for (const each of codes) {
      if (each < next) delta += 1;
      if (each !== next) continue;
      let rest = delta;
      for (let k = 36; ; k += 36) {
        const least = k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias;
        if (rest < least) break;
        const digit = least + ((rest - least) % (36 - least));
        text += String.fromCharCode(digit < 26 ? digit + 97 : digit + 22);
        rest = Math.floor((rest - least) / (36 - least));
      }
      text += String.fromCharCode(rest < 26 ? rest + 97 : rest + 22);
      delta = done === basic ? Math.floor(delta / 700) : Math.floor(delta / 2);
      delta += Math.floor(delta / (done + 1));
      let k = 0;
      for (; delta > 455; k += 36) delta = Math.floor(delta / 35);
      bias = k + Math.floor((36 * delta) / (delta + 38));
      delta = 0;
      done += 1;
    }
    delta += 1;
    next += 1;
  }
  return text;
}

export function endsInNumber(name: string): boolean {
  const parts = name.split('.');
  if (parts.at(-1) === '' && parts.length > 1) parts.pop();
  const last = parts.at(-1) ?? '';
  return /^\d+$/.test(last) || /^0x[\da-f]*$/i.test(last);
}

export function parseIpv4(name: string): string | undefined {
  const parts = name.split('.');
  if (parts.at(-1) === '' && parts.length > 1) parts.pop();
  if (parts.length > 4) return undefined;
  const numbers = parts.map((part) => {
    if (part === '') return Number.NaN;
    if (/^0x[\da-f]*$/i.test(part)) return part.length === 2 ? 0 : Number.parseInt(part.slice(2), 16);
    if (/^0[0-7]+$/.test(part)) return Number.parseInt(part, 8);
    return /^(?:0|[1-9]\d*)$/.test(part) ? Number(part) : Number.NaN;
  });
  const last = numbers.pop() ?? Number.NaN;
  if (!(last < 256 ** (4 - numbers.length)) || numbers.some((number) => !(number <= 255))) return undefined;
  let address = last;
  for (let at = 0; at < numbers.length; at += 1) address += (numbers[at] ?? 0) * 256 ** (3 - at);
  return [24, 16, 8, 0].map((shift) => Math.floor(address / 2 ** shift) % 256).join('.');
}

/** Eight numbers of sixteen bits. */
export function parseIpv6(text: string): readonly number[] | undefined {
  const halves = text.split('::');
  if (halves.length > 2) return undefined;
  const read = (half: string, isLast: boolean): number[] | undefined => {
    if (half === '') return [];
    const words = half.split(':');
    const numbers: number[] = [];
    for (let at = 0; at < words.length; at += 1) {
      const word = words[at] ?? '';
      if (isLast && at === words.length - 1 && word.includes('.')) {
        if (!/^(?:(?:0|[1-9]\d{0,2})(?:\.|$)){4}$/.test(word) || word.endsWith('.')) return undefined;
        const [a = 0, b = 0, c = 0, d = 0] = word.split('.').map(Number);
        if (a > 255 || b > 255 || c > 255 || d > 255) return undefined;
        numbers.push(a * 256 + b, c * 256 + d);
      } else if (/^[\da-f]{1,4}$/i.test(word)) numbers.push(Number.parseInt(word, 16));
      else return undefined;
    }
    return numbers;
  };
  const first = read(halves[0] ?? '', halves.length === 1);
  const second = halves.length === 1 ? [] : read(halves[1] ?? '', true);
  if (first === undefined || second === undefined) return undefined;
  const missing = 8 - first.length - second.length;
  if (halves.length === 1 ? missing !== 0 : missing < 1) return undefined;
  return [...first, ...Array.from({ length: missing }, () => 0), ...second];
}

/** The longest run of zeros, the first of several, is left out. */
export function writeIpv6(pieces: readonly number[]): string {
  let start = -1;
  let length = 1;
  for (let at = 0; at < 8; at += 1) {
    let end = at;
    while (end < 8 && pieces[end] === 0) end += 1;
    if (end - at > length) {
      start = at;
      length = end - at;
    }
  }
  const hex = (part: readonly number[]) => part.map((piece) => piece.toString(16)).join(':');
  return start < 0 ? hex(pieces) : `${hex(pieces.slice(0, start))}::${hex(pieces.slice(start + length))}`;
}
