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
  const jsons = [json, json.replaceAll('/', '\\/')].flatMap((text) => [text, ...unicodeEscaped(text)]);
  jsons.push(...unicodeEscapedWhole(value));
  // Text in JSON in JSON, as tools of agents send it.
  const twice = jsons.map((text) => JSON.stringify(text).slice(1, -1));
  const allUrls = [...urls, ...urls.map(lowerHex)];
  // Escaped once more, by somebody who did not know that it is already.
  const twiceUrls = allUrls.map((text) => text.replaceAll('%', '%25'));
  return [...allUrls, ...twiceUrls, ...jsons, ...twice, ...htmlEscaped(value)];
}

function lowerHex(text: string): string {
  return text.replaceAll(/%[0-9A-F]{2}/g, (byte) => byte.toLowerCase());
}

/** What encoders beside JSON's own rules write as `\\u00XX`: Go and Rails; Gson; .NET, with capital letters. */
const unicodeSets = [/[<>&']/g, /[<>&'=]/g, /[<>&'+`]/g] as const;
const notPlain = /[^A-Za-z0-9]/g;

function unicodeEscaped(json: string): string[] {
  return unicodeSets.flatMap((set) => [json.replaceAll(set, unicode), json.replaceAll(set, capitalUnicode)]);
}

/** Every character that is no letter or digit, quotes and backslashes too; .NET writes these so as well. */
function unicodeEscapedWhole(value: string): string[] {
  const dotNet = value.replaceAll(/[<>&'+`"]/g, capitalUnicode).replaceAll(/\\(?!u00)/g, '\\\\');
  return [value.replaceAll(notPlain, unicode), value.replaceAll(notPlain, capitalUnicode), dotNet];
}

function unicode(character: string): string {
  return `\\u00${hex(character)}`;
}

function capitalUnicode(character: string): string {
  return `\\u00${hex(character).toUpperCase()}`;
}

function hex(character: string): string {
  return character.charCodeAt(0).toString(16).padStart(2, '0');
}

const plainNames = namesOf('&amp <lt >gt "quot');
/** Of HTML 5, for visible ASCII. */
const allNames = namesOf(
  `&amp <lt >gt "quot !excl #num $dollar %percnt 'apos (lpar )rpar *ast +plus ,comma .period /sol :colon ;semi ` +
    '=equals ?quest @commat [lsqb \\bsol ]rsqb ^Hat _lowbar `grave {lcub |vert }rcub',
);

/** Words of a character and its name. */
function namesOf(words: string): Readonly<Record<string, string>> {
  return Object.fromEntries(words.split(' ').map((word) => [word.slice(0, 1), word.slice(1)]));
}

/** By name, by number, and by names with numbers for what has none: each with the sets that libraries escape. */
function htmlEscaped(value: string): string[] {
  const named = (names: typeof allNames, text: string): string =>
    text.replaceAll(notPlain, (character) =>
      names[character] === undefined ? character : `&${names[character]};`,
    );
  const bare = value.replaceAll(/[&<>]/g, (character) => `&${plainNames[character]};`);
  const quoted = named(plainNames, value);
  const numbers: ((character: string) => string)[] = [
    (character) => `&#${character.charCodeAt(0)};`,
    (character) => `&#0${character.charCodeAt(0)};`,
    (character) => `&#x${hex(character)};`,
    (character) => `&#x${hex(character).toUpperCase()};`,
  ];
  // Behind the names, so that what they hold is not escaped again: "&", "#" and ";" are in none of these.
  const sets = [/'/g, /["'+]/g, /["']/g, /['/]/g, /['/=`]/g, /['+`]/g];
  const mixed = [bare, quoted].flatMap((text) =>
    sets.flatMap((set) => numbers.map((number) => text.replaceAll(set, number))),
  );
  const whole = [/[&<>"']/g, /[&<>"'/=`]/g, notPlain].flatMap((set) =>
    numbers.map((number) => value.replaceAll(set, number)),
  );
  const apostrophes = quoted.replaceAll("'", '&apos;');
  return [bare, quoted, apostrophes, named(allNames, value), ...mixed, ...whole];
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
