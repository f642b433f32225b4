/**
 * What a run's command reads: the messages as elements, in which nothing that somebody wrote can be taken for an element. It keeps
 * messages apart and says who wrote each; a model that follows what one says is what the sandbox is for.
 */
import { groupLimits } from '@squash/contract/group-limits';

export interface PromptMessage {
  readonly sender: string;
  readonly text: string;
  readonly atMs: number;
}

export function promptOf(chat: string, messages: readonly PromptMessage[]): string {
  return [`<messages chat="${escaped(chat)}">`, ...messages.map(element), '</messages>', ''].join('\n');
}

/** How many of them, from the first on, one prompt holds; one is always among them. */
export function promptCount(messages: readonly PromptMessage[]): number {
  let bytes = 0;
  const over = messages.findIndex((message) => {
    bytes += Buffer.byteLength(element(message)) + 1;
    return bytes > groupLimits.promptBytesMax;
  });
  return over === -1 ? messages.length : Math.max(1, over);
}

function element({ sender, text, atMs }: PromptMessage): string {
  return `<message sender="${escaped(sender)}" time="${new Date(atMs).toISOString()}">${escaped(text)}</message>`;
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&apos;',
};

/**
 * What steers a terminal, turns what stands around it, or is a letter that models read and nobody sees. What languages are written with stays,
 * and the sign that an emoji is drawn in colours.
 */
const harmful =
  /[\p{Cc}\u2028\u2029\u202A-\u202E\u2066-\u2069]|(?![\u00AD\u200B-\u200F]|(?<=\p{Emoji})[\uFE0E\uFE0F])\p{Default_Ignorable_Code_Point}/gu;

function escaped(text: string): string {
  return text
    .replaceAll(/[&<>"']/g, (character) => entities[character] ?? character)
    .replaceAll(harmful, (character) => (character === '\n' || character === '\t' ? character : '\u{FFFD}'));
}
