/**
 * The forms in which a server may send a value back: as it is, escaped for URLs, JSON and HTML, and inside base64.
 *
 * What a newcomer would get wrong: base64 packs three bytes into four characters, so one value has three encodings,
 * depending on what stands before it, and the characters at its ends also depend on its neighbours. What is looked for
 * is the middle that depends on the value alone, and what is put in its place has the same length modulo four, so that
 * everything behind it still decodes.
 */
export interface ValueForm {
  readonly bytes: Buffer;
  readonly replacement: Buffer;
}

/** Every form of `value`, each with the placeholder in the same form. Equal forms are given once. */
export function valueForms(value: string, placeholder: string): ValueForm[] {
  const forms = new Map<string, string>();
  // The placeholder's characters are those that no escaping touches.
  for (const text of [value, ...escapedForms(value)]) forms.set(text, placeholder);
  for (const [text, replacement] of base64Forms(value, placeholder)) {
    if (!forms.has(text)) forms.set(text, replacement);
  }
  return Array.from(forms, ([text, replacement]) => ({
    bytes: Buffer.from(text, 'latin1'),
    replacement: Buffer.from(replacement, 'latin1'),
  }));
}

function escapedForms(value: string): string[] {
  const component = encodeURIComponent(value);
  const strict = percentEncoded(value, /[A-Za-z0-9\-._~]/);
  // What browsers send for forms escapes a tilde, too, and writes spaces as plus signs.
  const form = new URLSearchParams([['', value]]).toString().slice(1);
  // Python's quote() leaves slashes.
  const urls = [
    component,
    strict,
    form,
    strict.replaceAll('%2F', '/'),
    percentEncoded(value, pathCharacters),
  ];
  const json = JSON.stringify(value).slice(1, -1);
  // PHP escapes slashes; Go and Rails write what HTML could misread as \u003c.
  const jsons = [
    json,
    json.replaceAll('/', '\\/'),
    unicodeEscaped(json),
    unicodeEscaped(json.replaceAll('/', '\\/')),
  ];
  const html = value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  const quoted = html.replaceAll('"', '&quot;');
  const htmls = [
    html,
    quoted,
    quoted.replaceAll("'", '&#39;'),
    html.replaceAll('"', '&#34;').replaceAll("'", '&#39;'),
  ];
  const lower = urls.map((text) => text.replaceAll(/%[0-9A-F]{2}/g, (byte) => byte.toLowerCase()));
  return [...urls, ...lower, ...jsons, ...htmls];
}

function unicodeEscaped(text: string): string {
  return text.replaceAll(/[<>&']/g, (character) => `\\u00${character.charCodeAt(0).toString(16)}`);
}

/** Characters that may stand in a path's segment as they are (RFC 3986, pchar). */
export const pathCharacters: RegExp = /[A-Za-z0-9\-._~!$&'()*+,;=:@]/;

/** ASCII text with every character escaped that does not match `kept`. */
export function percentEncoded(text: string, kept: RegExp): string {
  let encoded = '';
  for (const character of text) {
    encoded += kept.test(character)
      ? character
      : `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`;
  }
  return encoded;
}

function base64Forms(value: string, placeholder: string): [string, string][] {
  // As many bytes more as make both lengths equal modulo 3, so that what follows keeps its alignment.
  const padding = '.'.repeat((3 - ((placeholder.length - value.length) % 3)) % 3);
  return [0, 1, 2].flatMap((offset): [string, string][] => {
    const text = base64Middle(value, offset);
    const replacement = base64Middle(placeholder + padding, offset);
    return [
      [text, replacement],
      [urlAlphabet(text), urlAlphabet(replacement)],
    ];
  });
}

/** The characters that depend on `text` alone when `offset` bytes (modulo 3) stand before it. */
function base64Middle(text: string, offset: number): string {
  const encoded = Buffer.from('\0'.repeat(offset) + text, 'latin1').toString('base64');
  const firstWhole = Math.ceil((8 * offset) / 6);
  const endWhole = Math.floor((8 * (offset + text.length)) / 6);
  return encoded.slice(firstWhole, endWhole);
}

function urlAlphabet(text: string): string {
  return text.replaceAll('+', '-').replaceAll('/', '_');
}
