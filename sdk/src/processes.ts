/** The processes of a sandbox, those that ended as well. */
import type { Connection, Signal } from './connection.ts';
import { everyItem } from './pages.ts';
import { Process } from './process.ts';
import type { Operations } from './records.gen.ts';

export type ProcessFilter = Operations['process.list']['query'] & Signal;

export class Processes {
  readonly #connection: Connection;
  readonly #sandbox: string;

  constructor(connection: Connection, sandbox: string) {
    this.#connection = connection;
    this.#sandbox = sandbox;
  }

  /** `process.list` */
  async *list({ signal, ...query }: ProcessFilter = {}): AsyncGenerator<Process, void, void> {
    const path = { id: this.#sandbox };
    for await (const record of everyItem(this.#connection, 'process.list', { path, query, signal }))
      yield new Process(this.#connection, this.#sandbox, record);
  }

  /** `process.get`: by its number, or a tag: the latest that runs with it, or else the latest. @throws NotFound */
  async get(process: number | string, options: Signal = {}): Promise<Process> {
    const name = typeof process === 'number' ? String(process) : `tag:${process}`;
    const path = { id: this.#sandbox, process: name };
    const record = await this.#connection.call('process.get', { path, ...options });
    return new Process(this.#connection, this.#sandbox, record);
  }
}
