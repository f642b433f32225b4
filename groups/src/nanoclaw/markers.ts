/** What a runner of v1 prints: results between two markers, and whatever else, which is nobody's answer. Pure. */
import { fieldsOf, textOf } from './channel-client.ts';

export interface Result {
  readonly isError: boolean;
  /** What is said in the chat; null: nothing. */
  readonly text: string | null;
  readonly session: string | undefined;
  readonly error: string | undefined;
}

const begin = '---NANOCLAW_OUTPUT_START---';
const end = '---NANOCLAW_OUTPUT_END---';
/** A block that is longer never ends. */
const blockCharsMax = 4 << 20;

export class Markers {
  #pending = '';

  /** @returns the results that are whole by now, and what stood around them */
  take(printed: string): { readonly results: readonly Result[]; readonly rest: string } {
    this.#pending += printed;
    const results: Result[] = [];
    let rest = '';
    for (;;) {
      const from = this.#pending.indexOf(begin);
      if (from === -1) break;
      rest += this.#pending.slice(0, from);
      this.#pending = this.#pending.slice(from);
      const to = this.#pending.indexOf(end);
      if (to === -1) break;
      results.push(resultOf(this.#pending.slice(begin.length, to)));
      this.#pending = this.#pending.slice(to + end.length);
    }
    const isOpen = this.#pending.startsWith(begin) && this.#pending.length <= blockCharsMax;
    // The last characters may be the first of a marker.
    const kept = isOpen ? this.#pending.length : Math.min(this.#pending.length, begin.length - 1);
    const cut = this.#pending.length - kept;
    rest += this.#pending.slice(0, cut);
    this.#pending = this.#pending.slice(cut);
    return { results, rest };
  }
}

function resultOf(block: string): Result {
  const fields = fieldsOf(block);
  if (fields === undefined) return { ...nothing, isError: true, error: 'a result is no JSON' };
  const { status, result, newSessionId, error } = fields;
  return {
    isError: status === 'error',
    text:
      result === null || result === undefined
        ? null
        : spoken(typeof result === 'string' ? result : JSON.stringify(result)),
    session: textOf(newSessionId),
    error: textOf(error),
  };
}

const nothing = { text: null, session: undefined };

/** Without what the agent said to itself. */
export function spoken(text: string): string | null {
  const said = text.replaceAll(/<internal>[\s\S]*?<\/internal>/g, '').trim();
  return said === '' ? null : said;
}
