/**
 * Contexts: processes of the sandbox that keep a kernel (`images/interpreter/`), spoken to in lines of JSON.
 *
 * Nothing of a context is kept here that the process's stored output does not say: a daemon that comes later finds contexts by their
 * processes' tags, cells by their positions, and reads the state again.
 */
import { randomUUID } from 'node:crypto';
import type { CellEvent, CellRun, Context, ContextCreate, ContextLanguage } from '@squash/contract/context';
import { contextLanguages } from '@squash/contract/context';
import { AppError } from '@squash/contract/errors';
import type { SandboxId } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import { rfc3339 } from '@squash/base/clock';
import { cellEvents } from '../sandbox/cell-events.ts';
import { bridgeLines, type PlacedLine } from '../sandbox/context-lines.ts';
import { ContextState } from '../sandbox/context-state.ts';
import { findProcess, type Found, infoOf } from '../sandbox/processes.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { CellWatch } from './cell-watch.ts';
import type { Processes } from './processes.ts';
import type { Residents } from './residents.ts';

export interface Contexts {
  /** Resolves when its bridge runs. @throws interpreter_missing, context_exists, context_limit */
  create(id: SandboxId, wish: ContextCreate): Promise<Context>;
  /** Those that have not ended, oldest first. */
  list(id: SandboxId): Promise<readonly Context[]>;
  get(id: SandboxId, name: string): Promise<Context>;
  /** Resolves when it has ended. */
  remove(id: SandboxId, name: string): Promise<void>;
  /**
   * Resolves when the cell begins, with what it does; ends without `end` where `signal` ended it.
   * @throws context_ended, context_busy, kernel_died
   */
  run(id: SandboxId, name: string, cell: CellRun, signal: AbortSignal): Promise<AsyncIterable<CellEvent>>;
  /** What a cell did and does, again. @throws cell_not_found */
  output(at: CellPlace, wish: CellWish, signal: AbortSignal): Promise<AsyncIterable<CellEvent>>;
  interrupt(id: SandboxId, name: string): Promise<void>;
  /** Resolves when the bridge has begun to start another kernel; one that does not answer is ended. @throws context_ended */
  restart(id: SandboxId, name: string): Promise<Context>;
}

export interface CellPlace {
  readonly id: SandboxId;
  readonly name: string;
  readonly cell: number;
}

export interface CellWish {
  readonly after: number;
  readonly isFollowing: boolean;
}

interface Asked {
  readonly id: SandboxId;
  readonly found: Found;
  readonly command: Readonly<Record<string, unknown>>;
}

interface Beginning {
  readonly id: SandboxId;
  readonly name: string;
  readonly found: Found;
  readonly cell: CellRun;
}

/** The first word of every context's command: what the layer brings. */
const bridge = '/usr/lib/squash/interpreter/bridge.py';
const tagOf = (name: string): string => `context:${name}`;
const why = {
  busy: ['context_busy', `${limits.contextCellsWaitingMax} cells wait already`],
  dead: ['kernel_died', 'its kernel has died'],
  restarted: ['kernel_died', 'it was restarted before the cell began'],
} as const;

export class LocalContexts implements Contexts, Disposable {
  readonly #processes: Processes;
  readonly #residents: Residents;
  readonly #stop = new AbortController();
  /** By the process's row. */
  readonly #states = new Map<number, ContextState>();
  /** Cells that somebody waits for, by the process's row. */
  readonly #asked = new Map<number, number>();
  readonly #making = new Map<string, Promise<Found>>();
  /** A command is several pieces of input, which must not mix with another's. */
  readonly #turns = new Map<number, Promise<unknown>>();

  constructor(processes: Processes, residents: Residents) {
    this.#processes = processes;
    this.#residents = residents;
  }

  [Symbol.dispose](): void {
    this.#stop.abort();
  }

  async create(id: SandboxId, wish: ContextCreate): Promise<Context> {
    const name = wish.context ?? `${wish.language}-${randomUUID().slice(0, 8)}`;
    const found = this.#making.has(`${id}/${name}`) ? undefined : this.#peek(id, name);
    if (this.#making.has(`${id}/${name}`) || (found !== undefined && found.row.end === undefined)) {
      throw new AppError('context_exists', `Sandbox "${id}" has a context "${name}" already`);
    }
    return this.#record(id, name, await this.#make(id, name, wish));
  }

  async list(id: SandboxId): Promise<readonly Context[]> {
    const sandbox = this.#residents.find(id);
    return await Promise.all(
      livingContexts(sandbox).map(({ row }) => this.#record(id, nameOf(row), findProcess(sandbox, row.seq))),
    );
  }

  async get(id: SandboxId, name: string): Promise<Context> {
    return this.#record(id, name, this.#find(id, name));
  }

  async remove(id: SandboxId, name: string): Promise<void> {
    const { row } = this.#find(id, name);
    if (row.end === undefined) await this.#processes.end(id, row.seq);
  }

  async run(...[id, name, wish, signal]: Parameters<Contexts['run']>): Promise<AsyncIterable<CellEvent>> {
    const found = await this.#living(id, name);
    const watch = await this.#watch(id, found, wish.timeout_ms);
    let isBegun = false;
    try {
      const lines = await this.#begin({ id, name, found, cell: wish }, signal);
      if (lines === undefined) return none();
      watch.begins(lines.begin.start);
      isBegun = true;
      const source = { ...lines, context: name, language: languageOf(found), after: 0, isFollowing: true };
      return watched(cellEvents(source, signal), watch, signal);
    } finally {
      if (!isBegun) watch[Symbol.dispose]();
    }
  }

  async output(...[at, wish, signal]: Parameters<Contexts['output']>): Promise<AsyncIterable<CellEvent>> {
    const { id, name, cell } = at;
    const found = this.#find(id, name);
    const from = { after: cell, isFollowing: wish.isFollowing, isStalling: false };
    // Only looked at while its bytes are there: the beginning of a cell is never waited for.
    const isWritten = cell < infoOf(found).stdout_bytes + infoOf(found).stderr_bytes;
    const output = this.#processes.output(id, found.row.seq, from, signal);
    const lines = bridgeLines(output, limits.contextLineBytesMax);
    const first = isWritten ? await lines.next() : undefined;
    const begin = first?.done === false ? first.value : undefined;
    if (begin?.type !== 'line' || begin.line.type !== 'cell' || begin.start !== cell) {
      await lines.return();
      if (signal.aborted) return none();
      throw new AppError(
        'cell_not_found',
        `Context "${name}" of sandbox "${id}" has no cell ${cell}, or keeps its output no more`,
      );
    }
    return cellEvents({ lines, begin, context: name, language: languageOf(found), ...wish }, signal);
  }

  async interrupt(id: SandboxId, name: string): Promise<void> {
    await this.#tell(id, this.#present(id, name), { op: 'interrupt' });
  }

  async restart(id: SandboxId, name: string): Promise<Context> {
    const found = this.#present(id, name);
    const signal = AbortSignal.any([AbortSignal.timeout(limits.contextAnswerMs), this.#stop.signal]);
    const lines = await this.#ask({ id, found, command: { op: 'restart' } }, signal);
    for await (const placed of lines) {
      const isState = placed.type === 'line' && placed.line.type === 'state';
      if (isState && placed.line.state === 'starting') return this.get(id, name);
    }
    if (!this.#stop.signal.aborted) await this.#processes.end(id, found.row.seq);
    throw ended(name, this.#find(id, name));
  }

  /** Undefined where `signal` ended it. @throws context_ended, context_busy, kernel_died */
  async #begin({ id, name, found, cell }: Beginning, signal: AbortSignal) {
    const key = randomUUID();
    const lines = await this.#ask({ id, found, command: { op: 'run', key, ...cell } }, signal);
    for (;;) {
      const next = await lines.next();
      if (next.done === true) break;
      const placed = next.value;
      if (placed.type === 'gap' || !('key' in placed.line) || placed.line.key !== key) continue;
      const { line } = placed;
      if (line.type !== 'refused') return { lines, begin: placed };
      await lines.return();
      const [code, text] = why[line.why];
      throw new AppError(code, `Cannot run a cell in context "${name}" of sandbox "${id}": ${text}`);
    }
    if (signal.aborted) return undefined;
    throw ended(name, this.#find(id, name));
  }

  async #watch(
    id: SandboxId,
    found: Found,
    timeoutMs: number,
  ): Promise<Disposable & { readonly begins: (cell: number) => void }> {
    const { key, seq } = found.row;
    const state = await this.#state(id, found);
    const asked = this.#asked.get(key) ?? 0;
    this.#asked.set(key, asked + 1);
    let cell: number | undefined;
    let isOver = false;
    const release = (): void => {
      watch[Symbol.dispose]();
      if (isOver) return;
      isOver = true;
      const left = (this.#asked.get(key) ?? 1) - 1;
      if (left === 0) this.#asked.delete(key);
      else this.#asked.set(key, left);
    };
    const end = async (): Promise<void> => {
      if (cell !== undefined && state.present.cell !== cell) return release();
      // What stands still is not late.
      if (this.#residents.find(id).state.phase === 'paused') return;
      release();
      await this.#processes.end(id, seq);
    };
    const isStarting = state.present.state === 'starting';
    const before = asked > 0 || state.present.state === 'busy' ? 'busy' : isStarting ? 'starting' : 'idle';
    // Where it can't be ended the sandbox is gone, or whoever asks next is told what is wrong with it.
    const watch = new CellWatch(timeoutMs, before, () => void end().catch(release));
    return {
      begins: (at) => {
        cell = at;
        watch.begins();
      },
      [Symbol.dispose]: release,
    };
  }

  /** Sends a command and gives what the bridge writes from then on. */
  async #ask(
    { id, found, command }: Asked,
    signal: AbortSignal,
  ): Promise<AsyncGenerator<PlacedLine, void, void>> {
    const { stdout_bytes, stderr_bytes } = infoOf(findProcess(this.#residents.find(id), found.row.seq));
    const wish = { after: stdout_bytes + stderr_bytes, isFollowing: true, isStalling: false };
    await this.#tell(id, found, command);
    const output = this.#processes.output(id, found.row.seq, wish, signal);
    const state = await this.#state(id, found);
    return state.seeing(bridgeLines(output, limits.contextLineBytesMax));
  }

  async #tell(id: SandboxId, { row }: Found, command: Readonly<Record<string, unknown>>): Promise<void> {
    // The newline before it ends what an earlier command, that was not taken whole, has left.
    const chunks = [Buffer.from(`\n${JSON.stringify(command)}\n`)];
    const patience = { waitMs: limits.processStdinMs, gone: undefined };
    const before = this.#turns.get(row.key);
    const turn = (async () => {
      await before?.catch(() => undefined);
      await this.#processes.write(id, row.seq, { chunks, isLast: false, patience });
    })();
    this.#turns.set(row.key, turn);
    try {
      await turn;
    } finally {
      if (this.#turns.get(row.key) === turn) this.#turns.delete(row.key);
    }
  }

  /** Those that stand for a language are made when they are first asked for, and again when they have ended. */
  async #living(id: SandboxId, name: string): Promise<Found> {
    const language = contextLanguages.find((known) => name === `default-${known}`);
    if (language === undefined) return this.#present(id, name);
    const making = this.#making.get(`${id}/${name}`);
    if (making !== undefined) return await making;
    const found = this.#peek(id, name);
    if (found !== undefined && found.row.end === undefined) return found;
    return await this.#make(id, name, { language, env: {}, cwd: '/', user: undefined, context: name });
  }

  #present(id: SandboxId, name: string): Found {
    const found = this.#find(id, name);
    if (found.row.end !== undefined) throw ended(name, found);
    return found;
  }

  #make(id: SandboxId, name: string, wish: ContextCreate): Promise<Found> {
    const making = this.#start(id, name, wish).finally(() => this.#making.delete(`${id}/${name}`));
    this.#making.set(`${id}/${name}`, making);
    return making;
  }

  async #start(id: SandboxId, name: string, { language, env, cwd, user }: ContextCreate): Promise<Found> {
    const sandbox = this.#residents.find(id);
    const names = new Set(livingContexts(sandbox).map(({ row }) => nameOf(row)));
    for (const key of this.#making.keys()) {
      if (key.startsWith(`${id}/`)) names.add(key.slice(id.length + 1));
    }
    if (names.size >= limits.contextsMax) {
      throw new AppError('context_limit', `Sandbox "${id}" has ${limits.contextsMax} contexts already`);
    }
    const request = {
      argv: [bridge, language],
      shell: undefined,
      ...({ env, cwd, user, tty: undefined, tag: tagOf(name), stdin: 'open', isBackground: true } as const),
      timeoutMs: undefined,
      outputBytesMax: limits.contextOutputBytesMax,
      keep: 'tail',
    } as const;
    const { process } = await this.#processes.launch(id, request, undefined);
    const found = findProcess(sandbox, process);
    if (found.row.end?.exitCode === 127) {
      throw new AppError(
        'interpreter_missing',
        `Sandbox "${id}" has no interpreter: "${bridge}" is not there`,
      );
    }
    if (found.row.end !== undefined) {
      throw new AppError(
        'invalid_request',
        `The context cannot start in "${cwd}": is it a directory that the user may enter?`,
      );
    }
    return found;
  }

  /** @throws context_not_found */
  #find(id: SandboxId, name: string): Found {
    const found = this.#peek(id, name);
    if (found !== undefined) return found;
    throw new AppError('context_not_found', `Cannot find context "${name}" of sandbox "${id}"`);
  }

  #peek(id: SandboxId, name: string): Found | undefined {
    try {
      const found = findProcess(this.#residents.find(id), { tag: tagOf(name) });
      // Any process may have such a tag, and one that could not be started was no context.
      return isContext(found) && found.row.end?.exitCode !== 127 ? found : undefined;
    } catch (error) {
      if (error instanceof AppError && error.code === 'process_not_found') return undefined;
      throw error;
    }
  }

  async #record(id: SandboxId, name: string, found: Found): Promise<Context> {
    const { row } = found;
    const state = row.end === undefined ? await this.#state(id, found) : undefined;
    return {
      context: name,
      language: languageOf(found),
      ...(state === undefined ? { state: 'ended', cell: null, error: endOf(found) } : state.present),
      process: row.seq,
      cwd: row.workdir,
      started_at: rfc3339(row.startedMs),
    };
  }

  /** As far as the bridge has said by now. */
  async #state(id: SandboxId, { row }: Found): Promise<ContextState> {
    const { key, seq } = row;
    let state = this.#states.get(key);
    if (state === undefined) {
      state = new ContextState((after, isFollowing) =>
        this.#processes.output(id, seq, { after, isFollowing, isStalling: false }, this.#stop.signal),
      );
      this.#states.set(key, state);
      void state.over.then(() => this.#states.delete(key));
    }
    await state.ready;
    return state;
  }
}

function livingContexts({ runs }: Sandbox): readonly { readonly row: Found['row'] }[] {
  return [...runs.values()].filter((run) => isContext(run)).sort((a, b) => a.row.seq - b.row.seq);
}

function isContext({ row }: Pick<Found, 'row'>): boolean {
  return row.tag?.startsWith(tagOf('')) === true && row.process?.argv?.[0] === bridge;
}

const nameOf = (row: Found['row']): string => row.tag?.slice(tagOf('').length) ?? '';

function languageOf({ row }: Found): ContextLanguage {
  return contextLanguages.find((known) => known === row.process?.argv?.[1]) ?? 'python';
}

function endOf({ row }: Found): string | null {
  return row.end === undefined ? null : `exit code ${row.end.exitCode} (${row.end.reason})`;
}

function ended(name: string, found: Found): AppError {
  return new AppError('context_ended', `Context "${name}" has ended with all of its state: ${endOf(found)}`);
}

async function* none(): AsyncGenerator<CellEvent, void, void> {
  // Whoever asked is gone.
}

/** A client that goes leaves the cell watched: others may follow it. */
async function* watched(
  events: AsyncIterable<CellEvent>,
  watch: Disposable,
  signal: AbortSignal,
): AsyncGenerator<CellEvent, void, void> {
  yield* events;
  if (!signal.aborted) watch[Symbol.dispose]();
}
