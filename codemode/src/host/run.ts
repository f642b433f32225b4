/**
 * One run: from the moment a worker is there to its one end. Whatever happens first decides (the result, a limit, the caller, the worker's
 * death); everything after it is dropped, and no tool starts any more.
 */
import { randomBytes } from 'node:crypto';
import { CodemodeError, type ErrorKind } from '../errors.ts';
import type { RunSettings } from '../kernel/state.ts';
import type { Limits } from '../limits.ts';
import { frameBytesMax } from '../protocol/framing.ts';
import { type CheckedFrame, contentBlockSchema } from '../protocol/worker-schema.ts';
import type { CodecName, ContentBlock, ExecuteOptions, ExecutionEvent, ResumeAnswer } from '../types.ts';
import { Broker, type BrokerOwner, type PendingCall } from './broker.ts';
import { type CpuWatch, watchCpu } from './cpu-watch.ts';
import { HostWork } from './host-work.ts';
import { LogMeter, type LogStyle } from './log-meter.ts';
import type { Peer, PeerEvent } from './peer.ts';
import { Stopwatch } from './stopwatch.ts';
import type { ToolSet } from './tool-set.ts';
import { decodeHost } from './values.ts';

export interface RunPlan {
  readonly executionId: string;
  readonly limits: Limits;
  readonly codec: CodecName;
  readonly logStyle: LogStyle;
  readonly tools: ToolSet;
  readonly options: ExecuteOptions;
  readonly start:
    | { readonly type: 'fresh'; readonly source: string; readonly settings: RunSettings }
    | {
        readonly type: 'resumed';
        readonly snapshot: string;
        readonly parked: readonly PendingCall[];
        readonly asked: number;
        readonly answer: ResumeAnswer;
      };
}

export type RunEnd =
  | { readonly type: 'ok'; readonly value: unknown }
  | {
      readonly type: 'suspended';
      readonly snapshot: string;
      readonly asked: PendingCall;
      readonly parked: readonly PendingCall[];
    }
  | {
      readonly type: 'failed';
      readonly kind: ErrorKind;
      readonly name: string;
      readonly message: string;
      readonly stack: string | undefined;
    };

export interface RunOutcome {
  readonly end: RunEnd;
  readonly logs: readonly string[];
  readonly droppedLines: number;
  readonly output: readonly ContentBlock[];
  readonly warnings: readonly string[];
  readonly wallMs: number;
  readonly cpuMs: number | undefined;
  readonly toolCalls: number;
  /** The worker may serve again. */
  readonly isFit: boolean;
}

/** As many as `worker/session.ts` sends. */
const unhandledMax = 3;
/** The longest line of the kernel's console, its mark included. */
const lineCharsMax = 65_600;
/** This program may compute for half as long as the engine, which writes and reads the same values, and no less than some pauses of the collector. */
const hostMsMin = 500;
/** What a frame holds beside its text: an error's name, message and stack above all. */
const frameOwnBytes = 524_288;

export class Run implements BrokerOwner {
  readonly executionId: string;
  readonly limits: Limits;
  readonly codec: CodecName;
  readonly options: ExecuteOptions;
  readonly hostWork: HostWork;
  readonly #plan: RunPlan;
  readonly #peer: Peer;
  readonly #nonce = randomBytes(16).toString('hex');
  readonly #broker: Broker;
  readonly #log: LogMeter;
  readonly #output: ContentBlock[] = [];
  readonly #warnings: string[] = [];
  readonly #wall: Stopwatch;
  #cpu: CpuWatch | undefined;
  #cpuUsedMs: number | undefined;
  #outputBytes = 0;
  #dropped = 0;
  #asked: PendingCall | undefined;
  #unhandled = 0;
  #ended = false;
  readonly #end = Promise.withResolvers<RunEnd>();

  constructor(peer: Peer, plan: RunPlan) {
    this.#peer = peer;
    this.#plan = plan;
    this.executionId = plan.executionId;
    this.limits = plan.limits;
    this.codec = plan.codec;
    this.options = plan.options;
    const hostMsMax = Math.max(hostMsMin, Math.ceil(plan.limits.cpuMs / 2));
    this.hostWork = new HostWork(hostMsMax, () =>
      this.#fail('cpu', `CPU time limit exceeded (${hostMsMax}ms to read and write the code's values)`),
    );
    this.#broker = new Broker(plan.tools, this);
    this.#log = new LogMeter(plan.limits, plan.logStyle);
    this.#wall = new Stopwatch(plan.limits.wallMs, () =>
      this.#fail('timeout', `Execution timed out after ${plan.limits.wallMs}ms`),
    );
  }

  async execute(signal: AbortSignal): Promise<RunOutcome> {
    const stop = () => this.#fail('aborted', 'Execution aborted');
    signal.addEventListener('abort', stop, { once: true });
    this.#peer.begin((event) => this.#onPeer(event), this.#frameBytesMax());
    this.#wall.start();
    this.#cpu = watchCpu(
      () => this.#peer.placed.cpuMs(),
      this.limits.cpuMs,
      () => this.#fail('cpu', `CPU time limit exceeded (${this.limits.cpuMs}ms)`),
    );
    if (signal.aborted) stop();
    else this.#begin();
    const end = await this.#end.promise;
    signal.removeEventListener('abort', stop);
    this.#log.finish(this.#dropped);
    return {
      end,
      logs: this.#log.lines,
      droppedLines: this.#dropped,
      output: this.#output,
      warnings: this.#warnings,
      wallMs: this.#wall.spentMs,
      cpuMs: this.#cpuUsedMs,
      toolCalls: this.#broker.calls,
      isFit:
        end.type === 'ok' ||
        (end.type === 'failed' && ['runtime', 'serialization', 'result-limit', 'syntax'].includes(end.kind)),
    };
  }

  unreadBytes(): number {
    return this.#peer.unreadBytes;
  }

  answer(call: number, ok: boolean, text: string | undefined): void {
    if (!this.#ended)
      this.#peer.send({ t: 'tool', id: this.executionId, call, ok, ...(text !== undefined && { text }) });
  }

  event(event: ExecutionEvent): void {
    try {
      this.options.onEvent?.(event);
    } catch {
      // An observer's own fault: it does not change the run.
    }
  }

  waiting(people: number): void {
    if (this.#ended) return;
    if (people > 0) this.#wall.stop();
    else this.#wall.start();
  }

  suspend(pending: PendingCall): void {
    this.#asked = pending;
    this.#peer.allowFrame(frameBytesMax);
    this.#peer.send({ t: 'suspend', id: this.executionId });
  }

  #begin(): void {
    const { start } = this.#plan;
    const common = { id: this.executionId, nonce: this.#nonce, cpuMs: this.limits.cpuMs };
    if (start.type === 'fresh') {
      this.#peer.send({ t: 'run', ...common, source: start.source, settings: start.settings });
      return;
    }
    this.#peer.send({ t: 'resume', ...common, snapshot: start.snapshot });
    for (const pending of start.parked)
      this.#receive(pending, pending.call === start.asked ? start.answer : undefined);
  }

  #onPeer(event: PeerEvent): void {
    if (this.#ended) return;
    if (event.type === 'drained') {
      this.#broker.startNext();
      return;
    }
    if (event.type === 'frame') {
      this.#onFrame(event.frame);
      return;
    }
    if (event.outOfMemory) this.#fail('memory', `Memory limit exceeded (${this.limits.memoryMb}MB)`);
    else this.#fail('crash', `The engine ended unexpectedly: ${event.reason}`);
  }

  #onFrame(frame: CheckedFrame): void {
    // A frame of another run, or of code that found the channel and not the number.
    if (!('nonce' in frame) || frame.nonce !== this.#nonce) return;
    switch (frame.t) {
      case 'call':
        this.#receive({ call: frame.call, tool: frame.tool, text: frame.text });
        return;
      case 'log':
        if (!this.#log.add(frame.level, frame.text))
          this.#fail('log-limit', 'the log is larger than it may be');
        else
          this.event({
            type: 'log',
            level: frame.level,
            text: frame.text,
            ms: this.#wall.spentMs,
            seq: this.#log.lines.length,
          });
        return;
      case 'out':
        this.#onOutput(frame.block);
        return;
      case 'unhandled':
        // Our worker tells of three; one that tells of more is not ours any more, and is not listened to.
        this.#unhandled += 1;
        if (this.#unhandled <= unhandledMax) this.#warnings.push(`unhandled rejection: ${frame.text}`);
        return;
      case 'snapshot':
        if (this.#asked !== undefined)
          this.#finish({
            type: 'suspended',
            snapshot: frame.bytes,
            asked: this.#asked,
            parked: this.#broker.parked,
          });
        return;
      case 'done':
        this.#onDone(frame);
        return;
      default:
    }
  }

  #receive(pending: PendingCall, answered?: ResumeAnswer): void {
    let failure: string | undefined;
    try {
      failure = this.#broker.receive(pending, answered);
    } catch {
      failure = 'it called a tool with arguments that are no values';
    }
    if (failure !== undefined) this.#fail('tool-limit', failure);
  }

  #onOutput(json: string): void {
    this.#outputBytes += json.length;
    const block = this.#outputBytes > this.limits.resultBytes ? undefined : parseBlock(json);
    if (block === undefined) return;
    this.#output.push(block);
    this.event({ type: 'output', block });
  }

  #onDone(frame: Extract<CheckedFrame, { readonly t: 'done' }>): void {
    this.#dropped = frame.dropped;
    if (this.#broker.running > 0)
      this.#warnings.push(
        `${this.#broker.running} tool calls had not settled when the code ended: await every call`,
      );
    if (frame.ok) this.#finish(this.#value(frame.text));
    else {
      const { kind = 'crash', name = 'Error', message = 'the engine failed', stack } = frame.error ?? {};
      // What engines throw where memory ends. Code that throws the same words is told what it asked for.
      const memory =
        kind === 'runtime' &&
        /^(out of memory|Array buffer allocation failed|Invalid (?:array|string) length: out of memory)$/.test(
          message,
        );
      this.#finish({ type: 'failed', kind: memory ? 'memory' : kind, name, message, stack });
    }
  }

  #value(text: string | undefined): RunEnd {
    if (text !== undefined && text.length > this.limits.resultBytes) {
      return failed('result-limit', `the result is larger than ${this.limits.resultBytes} bytes`);
    }
    try {
      return { type: 'ok', value: this.hostWork.measure(() => decodeHost(this.codec, text)) };
    } catch {
      return failed('crash', 'the engine sent a result that is no value');
    }
  }

  /** Of the longest text this run may send, each character as JSON may write it; an engine's memory is longer, and comes when it is asked for. */
  #frameBytesMax(): number {
    const { argBytes, resultBytes, logBytes } = this.limits;
    const textMax = Math.max(argBytes, resultBytes, Math.min(logBytes, lineCharsMax));
    return Math.min(frameBytesMax, frameOwnBytes + 6 * textMax);
  }

  #fail(kind: ErrorKind, message: string): void {
    this.#finish(failed(kind, message));
  }

  #finish(end: RunEnd): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#wall.stop();
    this.#cpuUsedMs = this.#cpu?.used();
    this.#cpu?.stop();
    this.#broker.close(end.type === 'ok' ? undefined : new CodemodeError('aborted', 'the run has ended'));
    this.#end.resolve(end);
  }
}

function failed(kind: ErrorKind, message: string): RunEnd {
  return { type: 'failed', kind, name: 'Error', message, stack: undefined };
}

/** Made by the code: what is no block is dropped. */
function parseBlock(json: string): ContentBlock | undefined {
  try {
    return contentBlockSchema.parse(JSON.parse(json));
  } catch {
    return undefined;
  }
}
