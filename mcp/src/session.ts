/**
 * One client's sandboxes: its own, made when a tool first needs one, and those that it asked for. At the end all of them go.
 *
 * The trust argument: a model is told what to do by texts that others wrote. So it reaches the sandboxes of its session and no others, unless
 * the operator says so, and nothing it can say changes what they are made with.
 */
import { randomBytes } from 'node:crypto';
import { NotFound, type Sandbox, type SandboxCreate } from '@squash/sdk';
import { mcpLimits, type McpOptions } from './options.ts';
import { ToolError } from './tool-error.ts';

/** How long calls that were cancelled may take to end what they began. */
const endMsMax = 5_000;

export class Session implements AsyncDisposable {
  readonly options: McpOptions;
  /** For clients whose protocol knows no sessions: they name the sandbox in each call. */
  readonly #isShared: boolean;
  readonly #label = randomBytes(8).toString('hex');
  readonly #made = new Map<string, Sandbox>();
  #making = 0;
  readonly #calls = new Set<Promise<unknown>>();
  /** Where the next `read_process` goes on: `sandbox process` → position. */
  readonly #positions = new Map<string, number>();
  #own: Promise<Sandbox> | undefined;
  #isOver = false;
  #usedAt = performance.now();

  readonly #awake: NodeJS.Timeout | undefined;

  constructor(options: McpOptions, { isShared = false }: { readonly isShared?: boolean } = {}) {
    this.options = options;
    this.#isShared = isShared;
    // A person who is away for a while finds his files again; of clients without sessions nobody knows whether they are there.
    if (!isShared) this.#awake = setInterval(() => this.#keepAwake(), mcpLimits.idleTimeoutS * 300).unref();
  }

  /** The sandbox that a call names, or the session's own. @throws ToolError, SquashError */
  async box(id: string | undefined): Promise<Sandbox> {
    const { sandbox: only, anySandbox, squash } = this.options;
    if (only !== undefined) {
      if (id !== undefined && id !== only)
        throw new ToolError(
          'sandbox_not_yours',
          `these tools work in sandbox "${only}" alone`,
          'Leave `sandbox` out',
        );
      return await squash.sandboxes.get(only);
    }
    if (id === undefined) return await this.#default();
    const made = this.#made.get(id);
    if (made !== undefined) return made;
    if (anySandbox) return await squash.sandboxes.get(id);
    throw new ToolError(
      'sandbox_not_yours',
      `sandbox ${JSON.stringify(id)} was not made in this session`,
      'list_sandboxes tells which were; without `sandbox` the session’s own is used',
    );
  }

  /** @throws ToolError, SquashError */
  async create(wish: Pick<SandboxCreate, 'name' | 'from'>): Promise<Sandbox> {
    const { create, keep, squash } = this.options;
    const count = this.#made.size + this.#making;
    if (count >= mcpLimits.sandboxesOfSession)
      throw new ToolError(
        'sandbox_limit',
        `this session has ${count} sandboxes, as many as it may`,
        'Remove one with remove_sandbox',
      );
    this.#making += 1;
    try {
      const isNamed = wish.from !== undefined || create.from !== undefined;
      const layers = isNamed ? undefined : await this.options.layers();
      const box = await squash.sandboxes.create({
        ...(!keep && { idle_timeout_s: mcpLimits.idleTimeoutS }),
        ...(layers !== undefined && { from: { layers: [...layers] } }),
        // A copy is as the one it is of: with the files of one that may reach less it must not reach more.
        ...(wish.from === undefined && create),
        ...wish,
        labels: { 'made-by': 'squash-mcp', session: this.#label },
      });
      this.#made.set(box.id, box);
      // It came while the session ended.
      if (this.#isOver) await this.#removeAll();
      return box;
    } finally {
      this.#making -= 1;
    }
  }

  async remove(box: Sandbox): Promise<void> {
    await box.remove();
    await this.#forget(box.id);
  }

  /** A sandbox that is gone, named or the own one: the next call without a name makes another. Says whether it was the own one. */
  async forgetGone(named: string | undefined): Promise<boolean> {
    const id = named ?? (await this.#own?.catch(() => undefined))?.id;
    return id !== undefined && (await this.#forget(id));
  }

  mayUse(id: string): boolean {
    return this.options.anySandbox || this.#made.has(id);
  }

  async isOwn(id: string): Promise<boolean> {
    return (await this.#own?.catch(() => undefined))?.id === id;
  }

  /** @throws ToolError where too many run already */
  async call<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isOver) throw new ToolError('session_over', 'this session has ended');
    if (this.#calls.size >= mcpLimits.callsOfSession)
      throw new ToolError('too_many_calls', `${this.#calls.size} calls run already`, 'Wait for one of them');
    const running = work();
    this.#calls.add(running);
    try {
      return await running;
    } finally {
      this.#calls.delete(running);
      this.touch();
    }
  }

  /** Somebody is there. */
  touch(): void {
    this.#usedAt = performance.now();
  }

  /** How long nothing was asked of it, and nothing runs. */
  get silentMs(): number {
    return this.#calls.size > 0 ? 0 : performance.now() - this.#usedAt;
  }

  position(box: Sandbox, process: number): number {
    return this.#positions.get(`${box.id} ${process}`) ?? 0;
  }

  notePosition(box: Sandbox, process: number, position: number): void {
    const key = `${box.id} ${process}`;
    this.#positions.delete(key);
    this.#positions.set(key, position);
    const [oldest] = this.#positions.keys();
    if (this.#positions.size > 256 && oldest !== undefined) this.#positions.delete(oldest);
  }

  /** Waits for calls that were cancelled, then removes what was made. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isOver = true;
    clearInterval(this.#awake);
    const late = AbortSignal.timeout(endMsMax);
    const waited = new Promise<void>((settle) =>
      late.addEventListener('abort', () => settle(), { once: true }),
    );
    await Promise.race([Promise.allSettled(this.#calls), waited]);
    await this.#own?.catch(() => undefined);
    await this.#removeAll();
  }

  async #default(): Promise<Sandbox> {
    if (this.#isShared)
      throw new ToolError(
        'sandbox_needed',
        'this protocol version has no sessions, so no sandbox is yours yet',
        'Make one with create_sandbox and name it in `sandbox`',
      );
    const own = (this.#own ??= this.create({}));
    try {
      return await own;
    } catch (error) {
      if (this.#own === own) this.#own = undefined;
      throw error;
    }
  }

  /** A look at its files is work: it begins the idle time anew. */
  #keepAwake(): void {
    for (const box of this.#made.values()) {
      // Whatever is wrong with it the next call is told.
      box.files.stat('/', { signal: AbortSignal.timeout(endMsMax) }).catch(() => {});
    }
  }

  async #forget(id: string): Promise<boolean> {
    this.#made.delete(id);
    if (!(await this.isOwn(id))) return false;
    this.#own = undefined;
    return true;
  }

  async #removeAll(): Promise<void> {
    const made = [...this.#made.values()];
    this.#made.clear();
    if (this.options.keep) return;
    await Promise.all(
      made.map(async (box) => {
        try {
          await box.remove({ signal: AbortSignal.timeout(endMsMax) });
        } catch (error) {
          // It is gone already, or no daemon is there: then its idle time removes it.
          if (!(error instanceof NotFound)) return;
        }
      }),
    );
  }
}
