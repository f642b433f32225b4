/** Part of the guest kernel: percent-encoding, as the URL standard has it, and the form encoding of queries. */
import { decodeUtf8, encodeUtf8, freshUtf8 } from './text.ts';

export type PercentSet = 'control' | 'fragment' | 'query' | 'special-query' | 'path' | 'userinfo' | 'form';

/** Of the printable characters of ASCII; all others are always encoded. */
export function percentSet(name: PercentSet): string {
  switch (name) {
    case 'control':
      return '';
    case 'fragment':
      return ' "<>`';
    case 'query':
      return ' "#<>';
    case 'special-query':
      return ' "#<>\'';
    case 'path':
      return ' "#<>?^`{}';
    case 'userinfo':
      return ' "#<>?^`{}/:;=@[\\]|';
    case 'form':
      return ' !"#$%&\'()+,/:;<=>?@[\\]^`{|}~';
  }
}

export function percentEncode(text: string, name: PercentSet): string {
  const set = percentSet(name);
  const isPlain = (code: number) => code > 0x1f && code < 0x7f && !set.includes(String.fromCharCode(code));
  let encoded = '';
  let from = 0;
  for (let at = 0; at < text.length; at += 1) {
    if (isPlain(text.charCodeAt(at))) continue;
    encoded += text.slice(from, at);
    const character = String.fromCodePoint(text.codePointAt(at) ?? 0);
    const bytes = encodeUtf8(character);
    for (let each = 0; each < bytes.length; each += 1)
      encoded += `%${(bytes[each] ?? 0).toString(16).toUpperCase().padStart(2, '0')}`;
    at += character.length - 1;
    from = at + 1;
  }
  return encoded + text.slice(from);
}

/** What is no UTF-8 behind the signs becomes U+FFFD. */
export function percentDecode(text: string): string {
  if (!text.includes('%')) return text.toWellFormed();
  const bytes = encodeUtf8(text);
  const digit = (code: number | undefined) =>
    code === undefined ? Number.NaN : Number.parseInt(String.fromCharCode(code), 16);
  let end = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const high = bytes[at] === 0x25 ? digit(bytes[at + 1]) : Number.NaN;
    const low = digit(bytes[at + 2]);
    const isCode = high === high && low === low;
    bytes[end] = isCode ? high * 16 + low : (bytes[at] ?? 0);
    end += 1;
    if (isCode) at += 2;
  }
  return decodeUtf8(bytes.subarray(0, end), freshUtf8(), { fatal: false, ends: true });
}
