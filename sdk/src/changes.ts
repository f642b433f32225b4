/** What a sandbox made `from.host` has written over directories of the host, and bringing it there. */
import { type Connection, type Signal, startMsMax } from './connection.ts';
import { everyItem } from './pages.ts';
import type { Operations } from './records.gen.ts';

export type Change = Operations['change.list']['answer']['items'][number];
export type AppliedChange = Operations['change.apply']['answer']['items'][number];
export type ApplyOptions = Omit<Operations['change.apply']['body'], 'place' | 'paths'> & Signal;

export class Changes {
  readonly #connection: Connection;
  readonly #sandbox: string;

  constructor(connection: Connection, sandbox: string) {
    this.#connection = connection;
    this.#sandbox = sandbox;
  }

  /** `change.list`: by path below `place`, a directory of the host that the sandbox has at level `cow`. @throws Conflict, Unauthorized */
  list(place: string, options: Signal = {}): AsyncGenerator<Change, void, void> {
    return everyItem(this.#connection, 'change.list', {
      path: { id: this.#sandbox },
      query: { place },
      ...options,
    });
  }

  /** `change.file`: the bytes that the sandbox has at a path of the list, a megabyte at most. @throws NotFound, Conflict */
  async *fileParts(
    place: string,
    path: string,
    options: Signal = {},
  ): AsyncGenerator<Uint8Array, void, void> {
    const asked = { path: { id: this.#sandbox }, query: { place, path }, ...options };
    yield* (await this.#connection.open('change.file', asked)).body;
  }

  /**
   * `change.apply`: brings names of the list to the host, in this order, a directory before what is in it. What can't come is no error: each
   * name says what became of it. @throws Conflict, Unauthorized
   */
  async apply(
    place: string,
    paths: readonly string[],
    { signal, ...options }: ApplyOptions = {},
  ): Promise<readonly AppliedChange[]> {
    const { items } = await this.#connection.call('change.apply', {
      path: { id: this.#sandbox },
      body: { place, paths, ...options },
      signal,
      takesMs: startMsMax,
    });
    return items;
  }
}
