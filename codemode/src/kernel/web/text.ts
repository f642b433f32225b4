/** Part of the guest kernel: `TextEncoder`, `TextDecoder` (UTF-8 alone), `atob` and `btoa`. */

/** Errors that browsers make DOMExceptions of: here an Error with that name. */
export function namedError(name: string, message: string): Error {
  const error = new Error(message);
  Object.defineProperty(error, 'name', {
    value: name,
    writable: true,
    enumerable: false,
    configurable: true,
  });
  return error;
}

/** What is left of a pair of surrogates alone becomes U+FFFD. */
export function encodeUtf8(given: string): Uint8Array {
  const text = given.toWellFormed();
  // No character takes more.
  const bytes = new Uint8Array(text.length * 3);
  let end = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.codePointAt(at) ?? 0;
    if (code > 0xffff) at += 1;
    if (code < 0x80) {
      bytes[end] = code;
      end += 1;
      continue;
    }
    const more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    bytes[end] = (more === 1 ? 0xc0 : more === 2 ? 0xe0 : 0xf0) | (code >> (6 * more));
    for (let left = more - 1; left >= 0; left -= 1)
      bytes[end + more - left] = 0x80 | ((code >> (6 * left)) & 0x3f);
    end += more + 1;
  }
  return bytes.slice(0, end);
}

/** One character in the middle of a text: what it is so far, how many bytes are to come, and between what the next must lie. */
export interface Utf8State {
  code: number;
  left: number;
  lower: number;
  upper: number;
}

export function freshUtf8(): Utf8State {
  return { code: 0, left: 0, lower: 0x80, upper: 0xbf };
}

/** By the Encoding standard's decoder: each wrong sequence is one U+FFFD, or an error. */
export function decodeUtf8(
  bytes: Uint8Array,
  state: Utf8State,
  how: { readonly fatal: boolean; readonly ends: boolean },
): string {
  const parts: string[] = [];
  let units: number[] = [];
  const put = (code: number) => {
    if (code > 0xffff) {
      units[units.length] = 0xd800 + ((code - 0x10000) >> 10);
      units[units.length] = 0xdc00 + ((code - 0x10000) & 0x3ff);
    } else units[units.length] = code;
    if (units.length < 4096) return;
    parts[parts.length] = Reflect.apply(String.fromCharCode, undefined, units);
    units = [];
  };
  const putWrong = () => {
    Object.assign(state, freshUtf8());
    if (how.fatal) throw new TypeError('The encoded data was not valid for encoding utf-8');
    put(0xfffd);
  };
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0;
    if (state.left === 0) {
      if (byte < 0x80) put(byte);
      else if (!beginUtf8(state, byte)) putWrong();
    } else if (byte < state.lower || byte > state.upper) {
      putWrong();
      // It may begin the next character.
      at -= 1;
    } else {
      state.code = (state.code << 6) | (byte & 0x3f);
      state.lower = 0x80;
      state.upper = 0xbf;
      state.left -= 1;
      if (state.left === 0) put(state.code);
    }
  }
  if (how.ends && state.left > 0) putWrong();
  return `${parts.join('')}${Reflect.apply(String.fromCharCode, undefined, units)}`;
}

/** False where no character begins with this byte. */
export function beginUtf8(state: Utf8State, byte: number): boolean {
  if (byte < 0xc2 || byte > 0xf4) return false;
  state.left = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
  state.code = byte & (byte < 0xe0 ? 0x1f : byte < 0xf0 ? 0x0f : 0x07);
  // Neither longer than need be, nor a surrogate, nor beyond the last character.
  state.lower = byte === 0xe0 ? 0xa0 : byte === 0xf0 ? 0x90 : 0x80;
  state.upper = byte === 0xed ? 0x9f : byte === 0xf4 ? 0x8f : 0xbf;
  return true;
}

export class TextEncoder {
  get encoding(): string {
    return 'utf-8';
  }

  encode(text: unknown = ''): Uint8Array {
    return encodeUtf8(`${text}`);
  }

  /** Whole characters only, as many as there is room for. */
  encodeInto(text: unknown, target: Uint8Array): { readonly read: number; readonly written: number } {
    let read = 0;
    let written = 0;
    for (const character of `${text}`) {
      const bytes = encodeUtf8(character);
      if (written + bytes.length > target.length) break;
      target.set(bytes, written);
      read += character.length;
      written += bytes.length;
    }
    return { read, written };
  }
}

export class TextDecoder {
  readonly #fatal: boolean;
  readonly #ignoresBom: boolean;
  #state = freshUtf8();
  #isBegun = false;

  constructor(
    label: unknown = 'utf-8',
    options?: { readonly fatal?: unknown; readonly ignoreBOM?: unknown },
  ) {
    const names = ['utf-8', 'utf8', 'unicode-1-1-utf-8', 'unicode11utf8', 'unicode20utf8', 'x-unicode20utf8'];
    if (!names.includes(`${label}`.trim().toLowerCase()))
      throw new RangeError(`The encoding "${`${label}`.slice(0, 100)}" is not supported: utf-8 is`);
    this.#fatal = Boolean(options?.fatal);
    this.#ignoresBom = Boolean(options?.ignoreBOM);
  }

  get encoding(): string {
    return 'utf-8';
  }

  get fatal(): boolean {
    return this.#fatal;
  }

  get ignoreBOM(): boolean {
    return this.#ignoresBom;
  }

  decode(given?: ArrayBuffer | ArrayBufferView, options?: { readonly stream?: unknown }): string {
    const isStream = Boolean(options?.stream);
    const bytes =
      given === undefined
        ? new Uint8Array(0)
        : ArrayBuffer.isView(given)
          ? new Uint8Array(given.buffer, given.byteOffset, given.byteLength)
          : new Uint8Array(given);
    const text = decodeUtf8(bytes, this.#state, { fatal: this.#fatal, ends: !isStream });
    const isFirst = !this.#isBegun && text !== '';
    this.#isBegun = isStream && (this.#isBegun || text !== '');
    if (!isStream) this.#state = freshUtf8();
    return isFirst && !this.#ignoresBom && text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
  }
}

export function base64Digits(): string {
  return 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
}

export function encodeBase64(given: unknown): string {
  const text = `${given}`;
  const digits = base64Digits();
  const parts: string[] = [];
  for (let at = 0; at < text.length; at += 3) {
    const [a, b, c] = [text.charCodeAt(at), text.charCodeAt(at + 1), text.charCodeAt(at + 2)];
    if (a > 255 || b > 255 || c > 255)
      throw namedError('InvalidCharacterError', 'btoa() takes characters up to U+00FF');
    const triple = (a << 16) | (b << 8) | c;
    // NaN, of what is beyond the end, is 0 in the triple.
    parts[parts.length] =
      `${digits[triple >> 18]}${digits[(triple >> 12) & 63]}${b === b ? digits[(triple >> 6) & 63] : '='}${c === c ? digits[triple & 63] : '='}`;
  }
  return parts.join('');
}

export function decodeBase64(given: unknown): string {
  let text = `${given}`.replace(/[\t\n\f\r ]/g, '');
  if (text.length % 4 === 0) text = text.replace(/==?$/, '');
  if (text.length % 4 === 1 || /[^A-Za-z0-9+/]/.test(text))
    throw namedError('InvalidCharacterError', 'The string to be decoded is not correctly encoded');
  const digits = base64Digits();
  const parts: string[] = [];
  for (let at = 0; at < text.length; at += 4) {
    let bits = 0;
    for (let place = 0; place < 4; place += 1)
      bits = (bits << 6) | (at + place < text.length ? digits.indexOf(text[at + place] ?? '') : 0);
    const bytes = Math.min(3, text.length - at - 1);
    for (let place = 0; place < bytes; place += 1)
      parts[parts.length] = String.fromCharCode((bits >> (16 - 8 * place)) & 255);
  }
  return parts.join('');
}
