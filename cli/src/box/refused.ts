/** What a box that traces paths was refused, as the daemon has it: a page at a time, each path once. */
import type { RefusedPathInfo, RefusedPathsAnswer } from '@squash/contract/paths';
import { apiPath, type Client } from '../client/client.ts';
import { CliFailure } from '../failure.ts';

export class RefusedPaths {
  readonly #client: Client;
  readonly #id: string;
  #after = 0;
  #isTraced = true;
  #isTruncated = false;

  constructor(client: Client, id: string) {
    this.#client = client;
    this.#id = id;
  }

  /** False where the box was not asked to. Known behind the first `next`. */
  get isTraced(): boolean {
    return this.#isTraced;
  }

  /** There were more than the box keeps. */
  get isTruncated(): boolean {
    return this.#isTruncated;
  }

  /** All that came since the last call. */
  async next(): Promise<readonly RefusedPathInfo[]> {
    const paths: RefusedPathInfo[] = [];
    while (this.#isTraced) {
      const { items, traced, truncated } = await this.#page();
      this.#isTraced = traced;
      this.#isTruncated ||= truncated;
      paths.push(...items);
      const last = items.at(-1);
      if (last === undefined) break;
      this.#after = last.id;
    }
    return paths;
  }

  async #page(): Promise<RefusedPathsAnswer> {
    try {
      const path = apiPath(['v1', 'sandboxes', this.#id, 'paths'], { after: this.#after });
      return await this.#client.get<RefusedPathsAnswer>(path);
    } catch (failure) {
      // A daemon of an earlier release, whose boxes trace nothing.
      if (!(failure instanceof CliFailure) || failure.code !== 'not_found') throw failure;
      return { items: [], traced: false, truncated: false };
    }
  }
}
