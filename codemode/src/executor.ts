/**
 * An executor: prepares the code, takes a worker, has the run done, and says how it ended. The same for every engine and place; what
 * differs is given to the constructor.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { CodemodeError } from './errors.ts';
import type { LogStyle } from './host/log-meter.ts';
import { Pool, type PoolOptions } from './host/pool.ts';
import { Run, type RunOutcome, type RunPlan } from './host/run.ts';
import { packSuspended, unpackSuspended } from './host/suspended.ts';
import { type ToolSet, toolSetOf } from './host/tool-set.ts';
import { unknownToolHint } from './host/unknown-tool.ts';
import { encodeHost } from './host/values.ts';
import type { RunSettings } from './kernel/state.ts';
import { type Limits, withDefaults } from './limits.ts';
import type { Place } from './places/place.ts';
import type { Prepared } from './source/prepare.ts';
import { Preparer } from './source/preparer.ts';
import type {
  ErrorInfo,
  ExecuteOptions,
  ExecuteResult,
  Executor,
  ResolvedProvider,
  ToolTree,
} from './types.ts';

export interface PooledOptions extends PoolOptions {
  readonly name: string;
  readonly limits: Limits;
  readonly logStyle: LogStyle;
}

interface Program {
  /** As it was given; empty where only its memory is known. */
  readonly code: string;
  readonly linesBefore: number;
}

type Tools = ToolTree | readonly ResolvedProvider[];

/** How long a run may wait for a worker beside its own wall time: a container's first start. */
const never = new AbortController().signal;

export class PooledExecutor implements Executor {
  readonly name: string;
  readonly #options: PooledOptions;
  readonly #pool: Pool;
  readonly #disposing = new AbortController();
  readonly #active = new Set<Promise<unknown>>();
  readonly #preparer = new Preparer();

  constructor(place: Place, options: PooledOptions) {
    this.name = options.name;
    this.#options = options;
    this.#pool = new Pool(place, options);
  }

  /** Engines' processes that exist now, waiting ones too. */
  get processes(): number {
    return this.#pool.size;
  }

  /** Of these, the ones that wait for a run. */
  get idle(): number {
    return this.#pool.idle;
  }

  async init(): Promise<void> {
    await this.#pool.warm();
  }

  async execute(code: string, tools: Tools = {}, options: ExecuteOptions = {}): Promise<ExecuteResult> {
    const limits = this.#limitsOf(options);
    const executionId = options.executionId ?? randomUUID();
    let prepared: Prepared;
    let plan: RunPlan;
    try {
      const toolSet = toolSetOf(tools);
      prepared = enclosed(
        await this.#preparer.prepare(code, {
          language: options.language ?? 'auto',
          codeBytes: limits.codeBytes,
        }),
        options.enclose,
      );
      plan = {
        ...this.#planOf(options, { executionId, limits, tools: toolSet }),
        start: { type: 'fresh', source: prepared.text, settings: settingsOf(limits, toolSet, options) },
      };
    } catch (failure) {
      return refused(failure, executionId, options);
    }
    return await this.#do(plan, { code, linesBefore: prepared.linesBefore });
  }

  async resume(
    ...[suspended, answer, tools = {}, options = {}]: Parameters<Executor['resume']>
  ): Promise<ExecuteResult> {
    const limits = this.#limitsOf(options);
    let plan: RunPlan;
    try {
      const toolSet = toolSetOf(tools);
      const { saved, snapshot } = unpackSuspended(suspended, toolSet);
      const common = this.#planOf(
        { ...options, codec: saved.codec },
        { executionId: options.executionId ?? saved.executionId, limits, tools: toolSet },
      );
      plan = {
        ...common,
        start: { type: 'resumed', snapshot, parked: saved.parked, asked: saved.asked, answer },
      };
    } catch (failure) {
      return refused(failure, options.executionId ?? '', options);
    }
    return await this.#do(plan, { code: '', linesBefore: 0 });
  }

  async dispose(): Promise<void> {
    this.#disposing.abort(new CodemodeError('aborted', 'the executor is disposed'));
    await Promise.allSettled(this.#active);
    await Promise.all([this.#pool.dispose(), this.#preparer.dispose()]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.dispose();
  }

  /** Memory is the worker's, set when it starts; a run can't have another. */
  #limitsOf(options: ExecuteOptions): Limits {
    const { memoryMb } = options.limits ?? {};
    if (memoryMb !== undefined && memoryMb !== this.#options.limits.memoryMb) {
      throw new RangeError(
        `memoryMb is set for the executor (${this.#options.limits.memoryMb}), not for one run`,
      );
    }
    return withDefaults({ ...this.#options.limits, ...options.limits });
  }

  #planOf(
    options: ExecuteOptions,
    more: { readonly executionId: string; readonly limits: Limits; readonly tools: ToolSet },
  ): Omit<RunPlan, 'start'> {
    return { ...more, codec: options.codec ?? 'structured', logStyle: this.#options.logStyle, options };
  }

  async #do(plan: RunPlan, program: Program): Promise<ExecuteResult> {
    const work = this.#work(plan, program);
    this.#active.add(work);
    try {
      return await work;
    } finally {
      this.#active.delete(work);
    }
  }

  async #work(plan: RunPlan, program: Program): Promise<ExecuteResult> {
    const { executionId, options } = plan;
    const signal = AbortSignal.any([this.#disposing.signal, options.signal ?? never]);
    try {
      if (signal.aborted) throw new CodemodeError('aborted', 'Execution aborted');
      const { peer, warm } = await this.#pool.acquire(signal);
      const run = new Run(peer, plan);
      let outcome: RunOutcome | undefined;
      try {
        run.event({ type: 'start', executionId });
        outcome = await run.execute(signal);
      } finally {
        // Whatever happened: one that is not given back would be waited for.
        this.#pool.release(peer, outcome?.isFit === true);
      }
      run.event({ type: 'end', kind: outcome.end.type === 'failed' ? outcome.end.kind : outcome.end.type });
      return resultOf(plan, outcome, { warm, ...program });
    } catch (failure) {
      const known = signal.aborted
        ? new CodemodeError('aborted', 'Execution aborted', { cause: failure })
        : failure;
      return refused(known, executionId, options);
    }
  }
}

function enclosed(prepared: Prepared, enclose: ExecuteOptions['enclose']): Prepared {
  if (enclose === undefined) return prepared;
  const text = enclose(prepared.text);
  const linesAbove = text.slice(0, Math.max(0, text.indexOf(prepared.text))).split('\n').length - 1;
  return { text, linesBefore: prepared.linesBefore + linesAbove };
}

function settingsOf(limits: Limits, tools: ToolSet, options: ExecuteOptions): RunSettings {
  const codec = options.codec ?? 'structured';
  const input = encodeHost(codec, options.input, limits.toolResultBytes);
  return {
    codec,
    argBytes: limits.argBytes,
    resultBytes: limits.resultBytes,
    logBytes: limits.logBytes,
    logLines: limits.logLines,
    timers: limits.timers,
    seed: options.seed === undefined ? randomBytes(16).toString('hex') : seedOf(options.seed),
    tools: tools.entries.map((entry) => entry.path),
    namespaces: tools.namespaces,
    ...(input !== undefined && { input }),
  };
}

/** Any number stands for one sequence of `Math.random`. */
function seedOf(seed: number): string {
  const bytes = Buffer.alloc(16);
  bytes.writeDoubleBE(seed, 0);
  return bytes.toString('hex');
}

/** Nothing ran. @throws what is neither the code's nor the tools' fault */
function refused(failure: unknown, executionId: string, options: ExecuteOptions): ExecuteResult {
  if (!(failure instanceof CodemodeError)) throw failure;
  const { kind, message } = failure;
  try {
    options.onEvent?.({ type: 'end', kind });
  } catch {
    // An observer's own fault.
  }
  const name = kind === 'syntax' ? 'SyntaxError' : 'Error';
  return {
    result: undefined,
    error: message,
    errorInfo: { kind, name, message },
    stats: { wallMs: 0, cpuMs: undefined, toolCalls: 0, warm: false },
    executionId,
  };
}

function resultOf(
  plan: RunPlan,
  outcome: RunOutcome,
  how: Program & { readonly warm: boolean },
): ExecuteResult {
  const { end } = outcome;
  const base = {
    ...(outcome.logs.length > 0 && { logs: outcome.logs }),
    ...(outcome.output.length > 0 && { output: outcome.output }),
    ...(outcome.warnings.length > 0 && { warnings: outcome.warnings }),
    ...(outcome.droppedLines > 0 && { truncated: { logLines: outcome.droppedLines } }),
    stats: { wallMs: outcome.wallMs, cpuMs: outcome.cpuMs, toolCalls: outcome.toolCalls, warm: how.warm },
    executionId: plan.executionId,
  };
  switch (end.type) {
    case 'ok':
      return { result: end.value, ...base };
    case 'suspended':
      return { result: undefined, suspended: packSuspended(plan, end), ...base };
    case 'failed': {
      const errorInfo = errorInfoOf(end, { ...how, tools: plan.tools });
      return { result: undefined, error: errorInfo.message, errorInfo, ...base };
    }
  }
}

/** Positions in the code as it was given: what was put before it is taken off. */
function errorInfoOf(
  end: Extract<RunOutcome['end'], { readonly type: 'failed' }>,
  { code, linesBefore, tools }: Program & { readonly tools: ToolSet },
): ErrorInfo {
  const frames =
    end.stack === undefined
      ? []
      : // QuickJS gives destructuring no place of its own, and tells that of the step before: at the beginning that is our own line.
        [...end.stack.matchAll(/^ {4}at (?:.* \()?codemode\.js:(\d+):(\d+)\)?$/gm)].filter(
          ([, line]) => Number(line) > linesBefore,
        );
  const lines = frames.map((frame) =>
    frame[0].replace(/codemode\.js:(\d+)/, (_, line) => `codemode.js:${Number(line) - linesBefore}`),
  );
  const first = frames[0];
  const line = first === undefined ? undefined : Number(first[1]) - linesBefore;
  const hint =
    end.kind === 'runtime'
      ? unknownToolHint({ name: end.name, message: end.message, line }, code, tools)
      : undefined;
  const message = hint === undefined ? end.message : `${end.message}: ${hint}`;
  return {
    kind: end.kind,
    name: end.name,
    message,
    ...(line !== undefined && { line, column: Number(first?.[2]) }),
    ...(lines.length > 0 && { stack: `${end.name}: ${message}\n${lines.join('\n')}` }),
  };
}
