/**
 * What users of the package see: an executor takes code and tools and answers with a result.
 *
 * The shape is a superset of the executors of `@cloudflare/codemode` and of codemode-bridge: `result`, `error` and `logs`
 * mean what they mean there.
 */
import type { ErrorKind } from './errors.ts';
import type { Limits } from './limits.ts';

interface ToolMethod {
  call(...args: unknown[]): unknown;
}

/**
 * A tool: what the code passes arrives as arguments; what it returns (or resolves to) goes back as a value. By way of a method, whose parameters may be
 * narrower: `async (path: string) => …` is a tool, whose author says what he expects. Nothing checks it; `catalogOf()` with a schema does.
 */
export type ToolFn = ToolMethod['call'];

/** Tools by name. A nested record is a namespace: `{ fs: { read } }` is `codemode.fs.read`. */
export interface ToolTree {
  readonly [name: string]: ToolFn | ToolTree;
}

/** One global namespace with its tools, as `@cloudflare/codemode` hands them over. */
export interface ResolvedProvider {
  readonly name: string;
  readonly fns: ToolTree;
}

/** What a tool can ask about the call it serves, through `toolContext()`. */
export interface ToolContext {
  readonly executionId: string;
  /** Counts from 1 within one run. */
  readonly call: number;
  /** Full name, such as `codemode.fs.read`. */
  readonly tool: string;
  /** Aborted at the tool's time-out and when the run ends badly. */
  readonly signal: AbortSignal;
}

/** `json` is what `JSON.stringify` makes of a value; `structured` keeps BigInt, Date, Map, Set, cycles, bytes, errors. */
export type CodecName = 'structured' | 'json';

/** Globs over full tool names (`codemode.fs.*`); deny wins over ask, ask over allow. What none names is allowed. */
export interface ToolPolicy {
  readonly allow?: readonly string[];
  readonly ask?: readonly string[];
  readonly deny?: readonly string[];
}

export interface ApprovalRequest {
  readonly executionId: string;
  readonly call: number;
  readonly tool: string;
  readonly args: readonly unknown[];
  /** Aborted when the run ends before the answer. */
  readonly signal: AbortSignal;
}

/** `suspend` saves the run (engine quickjs) and ends `execute()` with `suspended`; `resume()` goes on with it. */
export type Approval =
  | { readonly decision: 'allow' | 'suspend' }
  | { readonly decision: 'deny'; readonly reason?: string };

export type ExecutionEvent =
  | { readonly type: 'start'; readonly executionId: string }
  | {
      readonly type: 'log';
      readonly level: LogLevel;
      readonly text: string;
      readonly ms: number;
      readonly seq: number;
    }
  | {
      readonly type: 'tool-call';
      readonly call: number;
      readonly tool: string;
      readonly args: readonly unknown[];
    }
  | {
      readonly type: 'tool-approval';
      readonly call: number;
      readonly tool: string;
      readonly state: 'asked' | 'allow' | 'deny' | 'suspend';
    }
  | {
      readonly type: 'tool-result';
      readonly call: number;
      readonly tool: string;
      readonly ok: boolean;
      readonly ms: number;
    }
  | { readonly type: 'output'; readonly block: ContentBlock }
  | { readonly type: 'end'; readonly kind: 'ok' | 'suspended' | ErrorKind };

export type LogLevel = 'log' | 'info' | 'debug' | 'trace' | 'warn' | 'error';

export type ContentBlock =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image'; readonly data: string; readonly mimeType: string };

export interface ExecuteOptions {
  readonly language?: 'auto' | 'javascript' | 'typescript';
  /** The code sees it as the global `input`, and as the first argument where it is a function. */
  readonly input?: unknown;
  readonly signal?: AbortSignal;
  readonly limits?: Partial<Limits>;
  readonly codec?: CodecName;
  /** The same number gives the code the same `Math.random`. */
  readonly seed?: number;
  readonly policy?: ToolPolicy;
  /** Asked for each call that `policy.ask` names. Without it such calls are refused. */
  readonly approve?: (request: ApprovalRequest) => Approval | Promise<Approval>;
  /** Called as things happen. What it throws is ignored: an observer does not change a run. */
  readonly onEvent?: (event: ExecutionEvent) => void;
  readonly executionId?: string;
  /**
   * Puts the program, which by then is exactly one function expression, into one of the caller's own: definitions before it, say. What it adds is not
   * checked: it is the caller's code.
   */
  readonly enclose?: (program: string) => string;
}

export interface ErrorInfo {
  readonly kind: ErrorKind;
  readonly name: string;
  readonly message: string;
  /** In the code as it was given, from 1. Absent where the engine does not know it: QuickJS, of destructuring at the beginning of a function. */
  readonly line?: number;
  /** Of what runs: the last expression, which is returned, stands 8 further to the right. */
  readonly column?: number;
  /** Frames of the code itself, nothing of the host or the engine. */
  readonly stack?: string;
}

export interface RunStats {
  readonly wallMs: number;
  readonly cpuMs: number | undefined;
  readonly toolCalls: number;
  /** The run found a started engine waiting. */
  readonly warm: boolean;
}

/** A run that waits for a person, as bytes. They hold what the code held: keep them as you keep secrets. */
export interface Suspended {
  readonly snapshot: Uint8Array;
  readonly call: number;
  readonly tool: string;
  readonly args: readonly unknown[];
}

export interface ExecuteResult {
  /** `undefined` where `error` is set. */
  readonly result: unknown;
  readonly error?: string;
  readonly errorInfo?: ErrorInfo;
  /** Absent when nothing was logged. */
  readonly logs?: readonly string[];
  readonly output?: readonly ContentBlock[];
  readonly warnings?: readonly string[];
  /** Log lines that were dropped or cut. */
  readonly truncated?: { readonly logLines: number };
  readonly suspended?: Suspended;
  readonly stats: RunStats;
  readonly executionId: string;
}

export interface Executor extends AsyncDisposable {
  readonly name: string;
  /** Never throws for what the code does; throws TypeError or RangeError for wrong options. */
  execute(
    code: string,
    tools?: ToolTree | readonly ResolvedProvider[],
    options?: ExecuteOptions,
  ): Promise<ExecuteResult>;
  /** Goes on with a suspended run, of which it needs the bytes, here or in another process; `tools` must be the same set. */
  resume(
    suspended: Pick<Suspended, 'snapshot'>,
    answer: ResumeAnswer,
    tools?: ToolTree | readonly ResolvedProvider[],
    options?: ExecuteOptions,
  ): Promise<ExecuteResult>;
  /** Starts engines so that the next run finds one waiting. */
  init(): Promise<void>;
  /** Ends every process and waits until they are gone; runs end with `aborted`. */
  dispose(): Promise<void>;
}

export type ResumeAnswer =
  | { readonly decision: 'allow' }
  | { readonly decision: 'deny'; readonly reason?: string };
