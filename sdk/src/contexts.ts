/** Contexts: kernels in a sandbox that keep state between the cells that they run. They need the layer `interpreter`. */
import { type Connection, fieldOf, type Signal } from './connection.ts';
import { refusalError } from './errors.ts';
import { readEvents, type ServerEvent } from './event-stream.ts';
import { type Execution, execution } from './execution.ts';
import { dataOf, follow } from './follow.ts';
import type { CellRun, ContextCreate, Context as ContextRecord, Operations } from './records.gen.ts';

type WireEvent = Operations['context.output']['event'];
/** `cell` first, then what it writes and shows, at last `end`. `seq` is what `output` goes on behind. */
export type CellEvent = Exclude<WireEvent, { readonly type: 'error' }>;

export type CellOptions = Omit<CellRun, 'code'> & Signal;
export type ContextOptions = ContextCreate & Signal;
export interface CellOutputOptions extends Signal {
  /** `seq` of the last event that was seen; all of them unless given. */
  readonly from?: number;
}

/** What the daemon takes where nothing is given. */
const cellMsDefault = 300_000;
/** A kernel may have to start, and one that is interrupted has some seconds. */
const slackMs = 60_000;
const kinds = ['cell', 'stdout', 'stderr', 'result', 'clear', 'exception', 'end', 'gap', 'error'];

export class Context {
  readonly name: string;
  readonly #connection: Connection;
  readonly #path: { readonly id: string; readonly context: string };
  #info: ContextRecord;

  /** Programs call `box.contexts.create` or `box.contexts.get`. */
  constructor(connection: Connection, sandbox: string, record: ContextRecord) {
    this.#connection = connection;
    this.name = fieldOf(record, 'context', 'string') as string;
    this.#path = { id: sandbox, context: this.name };
    this.#info = record;
  }

  /** As it was when it was made, found, or looked at last. */
  get info(): ContextRecord {
    return this.#info;
  }

  /** `context.get`: looks again. @throws NotFound */
  async refresh(options: Signal = {}): Promise<ContextRecord> {
    this.#info = await this.#connection.call('context.get', { path: this.#path, ...options });
    return this.#info;
  }

  /**
   * `context.run`: runs a cell and waits for its end, `timeout_ms` (300,000 unless given) at most. A cell that raises is a result with its
   * `error`. @throws NotFound, Conflict where the context has ended or its kernel has died, LimitReached
   */
  async run(code: string, options: CellOptions = {}): Promise<Execution> {
    return await runCell(this.#connection, this.#path, { code, ...options });
  }

  /** `context.run`: the same with each event as it comes. A connection that breaks is made again behind the last event. */
  async *stream(
    code: string,
    { signal, ...options }: CellOptions = {},
  ): AsyncGenerator<CellEvent, void, void> {
    const answer = await this.#connection.open('context.run', {
      path: this.#path,
      body: { code, ...options },
      headers: { accept: 'text/event-stream' },
      signal,
      takesMs: takesMsOf(options),
    });
    for await (const event of readEvents(answer.body)) {
      const record = eventOf(event);
      if (record?.type !== 'cell') continue;
      // From here on another connection, which can be made again.
      answer.discard();
      yield* this.output(record.cell, { signal });
      return;
    }
  }

  /** `context.output`: what a cell did and does, again, to its end. @throws NotFound where it is not kept any more */
  async *output(
    cell: number,
    { from = 0, signal }: CellOutputOptions = {},
  ): AsyncGenerator<CellEvent, void, void> {
    const events = follow(this.#connection, 'context.output', {
      path: { ...this.#path, cell: String(cell) },
      query: { after: from },
      signal,
      isLast: ({ name }) => name === 'end',
    });
    for await (const event of events) {
      const record = eventOf(event);
      if (record !== undefined) yield record;
    }
  }

  /** `context.interrupt`: interrupts the cell that runs. @throws Conflict where the context has ended */
  async interrupt(options: Signal = {}): Promise<void> {
    await this.#connection.call('context.interrupt', { path: this.#path, ...options });
  }

  /** `context.restart`: ends the kernel with its state and starts another. @throws Conflict where the context has ended */
  async restart(options: Signal = {}): Promise<ContextRecord> {
    this.#info = await this.#connection.call('context.restart', { path: this.#path, ...options });
    return this.#info;
  }

  /** `context.remove`: ends it with its state. @throws NotFound */
  async remove(options: Signal = {}): Promise<void> {
    await this.#connection.call('context.remove', { path: this.#path, ...options });
  }
}

export class Contexts {
  readonly #connection: Connection;
  readonly #sandbox: string;

  constructor(connection: Connection, sandbox: string) {
    this.#connection = connection;
    this.#sandbox = sandbox;
  }

  /** `context.create`: `language` is `python` unless given. @throws Conflict where the layer is missing, LimitReached */
  async create({ signal, ...body }: ContextOptions = {}): Promise<Context> {
    const record = await this.#connection.call('context.create', {
      path: { id: this.#sandbox },
      body,
      signal,
    });
    return new Context(this.#connection, this.#sandbox, record);
  }

  /** `context.list`: those that have not ended, oldest first. */
  async *list(options: Signal = {}): AsyncGenerator<Context, void, void> {
    const { items } = await this.#connection.call('context.list', {
      path: { id: this.#sandbox },
      ...options,
    });
    for (const record of items) yield new Context(this.#connection, this.#sandbox, record);
  }

  /** `context.get`: by its name. @throws NotFound */
  async get(name: string, options: Signal = {}): Promise<Context> {
    const path = { id: this.#sandbox, context: name };
    return new Context(
      this.#connection,
      this.#sandbox,
      await this.#connection.call('context.get', { path, ...options }),
    );
  }
}

export async function runCell(
  connection: Connection,
  path: { readonly id: string; readonly context: string },
  { signal, ...body }: CellRun & Signal,
): Promise<Execution> {
  return execution(await connection.call('context.run', { path, body, signal, takesMs: takesMsOf(body) }));
}

function takesMsOf({ timeout_ms = cellMsDefault }: Pick<CellRun, 'timeout_ms'>): number {
  return timeout_ms + slackMs;
}

/** Undefined for a newer daemon's events, that this release does not know. */
function eventOf(event: ServerEvent): CellEvent | undefined {
  if (!kinds.includes(event.name)) return undefined;
  const record = dataOf(event) as WireEvent;
  if (record.type === 'error') throw refusalError({ ...record, status: 0 });
  return record;
}
