/**
 * Text of a sandbox as a model is shown it. Whoever runs something in a sandbox chooses these bytes: what steers a terminal is taken out,
 * and what a person who looks over the model's shoulder would not see is written out.
 *
 * Sequences without an end are taken out no further than to the end of their line, so that none hides what follows.
 */

// oxlint-disable no-control-regex
const sequences = new RegExp(
  [
    // Strings for the terminal: titles, links, clipboards.
    String.raw`(?:\u001b[\]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\u0007\u001b\u009c\n]{0,4096}(?:\u0007|\u001b\\|\u009c)?`,
    String.raw`(?:\u001b\[|\u009b)[0-?]{0,64}[ -/]{0,8}[@-~]?`,
    String.raw`\u001b[ -/]{0,8}[0-~]?`,
  ].join('|'),
  'g',
);
const otherControls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;
/**
 * Directions, letters of no width that carry hidden text, and what separates lines for some readers only. What joins letters and emojis
 * stays, and the sign that one of these is drawn in colours.
 */
const unseen =
  /[\u2028\u2029\p{Bidi_Control}]|(?![\u200c\u200d]|(?<=\p{Emoji})[\ufe0e\ufe0f])\p{Default_Ignorable_Code_Point}/gu;

/** As a terminal would show it in the end: without sequences, colours, and what was written over. */
export function cleanOutput(text: string): string {
  const plain = text
    .replace(sequences, '')
    .replaceAll('\r\n', '\n')
    .replace(/^[^\n]*\r(?=[^\r\n])/gm, '')
    .replace(/[^\n\b]\u0008/g, '')
    .replace(otherControls, '');
  return withUnseen(plain);
}

/** Of a file each character counts: none is taken out, what is not to be seen is written as `\u{1b}`. */
export function cleanFile(text: string): string {
  return withUnseen(text.replaceAll('\r\n', '\n').replace(otherControls, written));
}

/** A name, or a sentence with names in it, on one line. */
export function cleanLine(text: string): string {
  return cleanFile(text).replaceAll('\n', String.raw`\n`).replaceAll('\t', ' ');
}

function withUnseen(text: string): string {
  return text.replace(unseen, written).toWellFormed();
}

function written(character: string): string {
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
}
