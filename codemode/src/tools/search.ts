/** Finds tools by words in large sets (BM25 over names, descriptions and parameters), so that a prompt need not hold them all. */
import { z } from 'zod';
import { chargeRun } from '../host/tool-context.ts';
import { type CatalogEntry, catalogOf } from './catalog.ts';
import { signatureOf } from './declarations.ts';

export interface Found {
  readonly name: string;
  readonly description: string;
  readonly signature: string;
}

/** The constants everybody uses: how soon repetition stops counting, how much length counts. */
const k1 = 1.2;
const b = 0.75;

export class ToolSearch {
  readonly #entries: readonly CatalogEntry[];
  readonly #documents: readonly (readonly string[])[];
  readonly #frequencies = new Map<string, number>();
  readonly #meanLength: number;

  constructor(entries: readonly CatalogEntry[]) {
    this.#entries = entries;
    this.#documents = entries.map((entry) => wordsOf(textOf(entry)));
    for (const words of this.#documents)
      for (const word of new Set(words)) this.#frequencies.set(word, (this.#frequencies.get(word) ?? 0) + 1);
    this.#meanLength =
      this.#documents.reduce((sum, words) => sum + words.length, 0) / Math.max(1, entries.length);
  }

  /** Best first; none where no word of the query occurs. */
  find(query: string, limit: number): readonly Found[] {
    const words = new Set(wordsOf(query.slice(0, 1000)));
    return this.#entries
      .map((entry, at) => ({ entry, score: this.#score(words, this.#documents[at] ?? []) }))
      .filter(({ score }) => score > 0)
      .sort((one, other) => other.score - one.score)
      .slice(0, limit)
      .map(({ entry }) => ({
        name: entry.path.join('.'),
        description: entry.description,
        signature: signatureOf(entry),
      }));
  }

  #score(query: ReadonlySet<string>, words: readonly string[]): number {
    let score = 0;
    for (const word of query) {
      const count = words.filter((each) => each === word).length;
      if (count === 0) continue;
      const having = this.#frequencies.get(word) ?? 0;
      const rarity = Math.log(1 + (this.#entries.length - having + 0.5) / (having + 0.5));
      score += (rarity * count * (k1 + 1)) / (count + k1 * (1 - b + (b * words.length) / this.#meanLength));
    }
    return score;
  }
}

const foundMax = 50;

/**
 * The tools with `codemode.search({ query })` beside them, so that a program finds the others by itself. Not where there are none to find, nor where a tool
 * has the name.
 */
export function withSearch(
  entries: readonly CatalogEntry[],
  search = new ToolSearch(entries),
): readonly CatalogEntry[] {
  if (entries.length === 0 || entries.some(({ path }) => path[1] === searchName)) return entries;
  const found = z.object({ name: z.string(), description: z.string(), signature: z.string() });
  const own = catalogOf({
    [searchName]: {
      description: 'Finds tools by words, best first, with their signatures',
      inputSchema: z.object({
        query: z.string().max(1000),
        limit: z.int().min(1).max(foundMax).optional(),
      }),
      outputSchema: z.array(found),
      execute: (input) => {
        const { query, limit = 8 } = input as { readonly query: string; readonly limit?: number };
        return chargeRun(() => search.find(query, limit));
      },
    },
  });
  return [...entries, ...own];
}

/** No namespace below `codemode` gets it. */
export const searchName = 'search';

function textOf(entry: CatalogEntry): string {
  const input = typeof entry.input === 'object' ? entry.input['properties'] : undefined;
  const fields = typeof input === 'object' && input !== null ? Object.keys(input) : [];
  return [...entry.path.slice(1), entry.description, ...fields].join(' ');
}

/** `readFile` and `read_file` are both "read" and "file". */
function wordsOf(text: string): readonly string[] {
  return text
    .replace(/([a-z\d])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word.length > 1);
}
