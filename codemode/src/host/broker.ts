/**
 * The tool calls of one run: counted, judged, asked for, run, timed, and answered. After the run has ended nothing starts any more;
 * what runs then hears of it through its signal.
 */
import { CodemodeError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { Approval, CodecName, ExecuteOptions, ExecutionEvent } from '../types.ts';
import type { HostWork } from './host-work.ts';
import { judge } from './policy.ts';
import { inToolContext } from './tool-context.ts';
import type { ToolEntry, ToolSet } from './tool-set.ts';
import { decodeHost, encodeHost } from './values.ts';

export interface BrokerOwner {
  readonly executionId: string;
  readonly limits: Limits;
  readonly codec: CodecName;
  readonly hostWork: HostWork;
  readonly options: Pick<ExecuteOptions, 'policy' | 'approve'>;
  /** Sends the answer to the code. */
  answer(call: number, ok: boolean, text: string | undefined): void;
  event(event: ExecutionEvent): void;
  /** Someone is being asked, or nobody any more: the wall clock stands still meanwhile. */
  waiting(people: number): void;
  /** The run is to be saved, once no tool runs. */
  suspend(pending: PendingCall): void;
  /** Bytes of answers that the worker has not read yet. */
  unreadBytes(): number;
}

export interface PendingCall {
  readonly call: number;
  readonly tool: number;
  readonly text: string;
}

interface Call extends PendingCall {
  readonly entry: ToolEntry;
  readonly args: readonly unknown[];
}

export class Broker {
  readonly #owner: BrokerOwner;
  readonly #tools: ToolSet;
  readonly #ending = new AbortController();
  readonly #queue: Call[] = [];
  readonly #parked = new Map<number, PendingCall>();
  #running = 0;
  /** Of the arguments of calls that have no answer yet. */
  #heldBytes = 0;
  #asking = 0;
  #lastCall = 0;
  #suspending: Call | undefined;
  calls = 0;

  constructor(tools: ToolSet, owner: BrokerOwner) {
    this.#tools = tools;
    this.#owner = owner;
  }

  /** Tools that run now. */
  get running(): number {
    return this.#running;
  }

  /** Calls that are saved with the run: asked for, or not begun. */
  get parked(): readonly PendingCall[] {
    return [...this.#parked.values()];
  }

  /** @returns why the run has to end, if it has to */
  receive(pending: PendingCall, answered?: Approval): string | undefined {
    const { limits } = this.#owner;
    const entry = this.#tools.entries[pending.tool];
    if (entry === undefined) return 'it called a tool that does not exist';
    // Counted by the kernel: what a person says of one call must not hold for another of the same number.
    if (pending.call <= this.#lastCall) return 'it gave two calls one number';
    this.#lastCall = pending.call;
    this.calls += 1;
    if (this.calls > limits.toolCalls) return `more than ${limits.toolCalls} tool calls`;
    if (pending.text.length > limits.argBytes)
      return `the arguments of "${entry.fullName}" are larger than ${limits.argBytes} bytes`;
    // One text in a thousand calls is one text in the code and a thousand here: as much as may run at once may wait as well.
    const heldBytesMax = 2 * limits.toolConcurrency * limits.argBytes;
    this.#heldBytes += pending.text.length;
    if (this.#heldBytes > heldBytesMax)
      return `more than ${heldBytesMax} bytes of arguments in calls that wait for their answers`;
    const args = this.#owner.hostWork.measure(() => decodeHost(this.#owner.codec, pending.text));
    if (this.#closed) return undefined;
    // A list may claim a length that no memory holds, and this one is spread out.
    if (!Array.isArray(args) || args.length > pending.text.length)
      return 'it called a tool without a list of arguments';
    const call: Call = { ...pending, entry, args };
    this.#owner.event({ type: 'tool-call', ...namesOf(call), args });
    this.#parked.set(call.call, pending);
    if (answered !== undefined) this.#apply(call, answered);
    else this.#judge(call);
    return undefined;
  }

  /** Nothing starts from here on; `reason` is for the tools that run, undefined lets them end in peace. */
  close(reason: Error | undefined): void {
    this.#queue.length = 0;
    this.#closed = true;
    if (reason !== undefined || this.#asking > 0)
      this.#ending.abort(reason ?? new CodemodeError('aborted', 'the run has ended'));
  }
  #closed = false;

  #judge(call: Call): void {
    switch (judge(this.#owner.options.policy, call.entry.fullName)) {
      case 'allow':
        this.#enqueue(call);
        return;
      case 'deny':
        this.#refuse(call, undefined);
        return;
      case 'ask':
        void this.#ask(call);
    }
  }

  async #ask(call: Call): Promise<void> {
    const { approve } = this.#owner.options;
    if (approve === undefined) return this.#refuse(call, 'nobody is there to approve it');
    const late = AbortSignal.timeout(this.#owner.limits.approvalMs);
    const signal = AbortSignal.any([this.#ending.signal, late]);
    this.#owner.event({ type: 'tool-approval', ...namesOf(call), state: 'asked' });
    this.#asking += 1;
    this.#owner.waiting(this.#asking);
    try {
      const given = Promise.resolve(
        approve({
          executionId: this.#owner.executionId,
          ...namesOf(call),
          args: call.args,
          signal,
        }),
      );
      this.#apply(call, await Promise.race([given, whenAborted(signal)]));
    } catch (failure) {
      if (!this.#closed) this.#refuse(call, late.aborted ? 'nobody answered in time' : messageOf(failure));
    } finally {
      this.#asking -= 1;
      this.#owner.waiting(this.#asking);
    }
  }

  #apply(call: Call, answer: Approval): void {
    if (this.#closed) return;
    this.#owner.event({ type: 'tool-approval', ...namesOf(call), state: answer.decision });
    if (answer.decision === 'allow') this.#enqueue(call);
    else if (answer.decision === 'deny') this.#refuse(call, answer.reason);
    else {
      this.#suspending ??= call;
      this.#maySuspend();
    }
  }

  #refuse(call: Call, reason: string | undefined): void {
    this.#settle(call, {
      ok: false,
      text: JSON.stringify([
        'DeniedError',
        `Tool "${call.entry.fullName}" was denied${reason === undefined ? '' : `: ${reason}`}`,
      ]),
    });
  }

  #enqueue(call: Call): void {
    this.#queue.push(call);
    this.startNext();
  }

  /** Also called when the worker has read what it was sent. */
  startNext(): void {
    const { limits } = this.#owner;
    while (
      this.#running < limits.toolConcurrency &&
      // A program that calls and never looks at the answers must not have them pile up here.
      this.#owner.unreadBytes() <= limits.toolResultBytes &&
      this.#suspending === undefined &&
      !this.#closed
    ) {
      const call = this.#queue.shift();
      if (call === undefined) return;
      this.#running += 1;
      this.#parked.delete(call.call);
      void this.#run(call).finally(() => {
        this.#running -= 1;
        this.startNext();
        this.#maySuspend();
      });
    }
  }

  async #run(call: Call): Promise<void> {
    const { executionId, limits, hostWork } = this.#owner;
    while (hostWork.isTired) await hostWork.turn();
    if (this.#closed) return;
    const began = performance.now();
    const late = new AbortController();
    const timer = setTimeout(
      () => late.abort(new Error(`Tool '${call.entry.fullName}' timed out after ${limits.toolMs}ms`)),
      limits.toolMs,
    );
    const signal = AbortSignal.any([this.#ending.signal, late.signal]);
    const context = { executionId, ...namesOf(call), signal };
    let answer: Answer;
    try {
      const value = await Promise.race([
        inToolContext(context, hostWork, async () => await call.entry.call(...call.args)),
        whenAborted(signal),
      ]);
      while (hostWork.isTired) await hostWork.turn();
      answer = this.#encoded(call, value);
    } catch (failure) {
      answer = { ok: false, text: JSON.stringify([nameOf(failure), messageOf(failure)]) };
    } finally {
      clearTimeout(timer);
    }
    if (this.#closed) return;
    this.#owner.event({
      type: 'tool-result',
      ...namesOf(call),
      ok: answer.ok,
      ms: performance.now() - began,
    });
    this.#settle(call, answer);
  }

  #encoded(call: Call, value: unknown): Answer {
    try {
      const { codec, limits, hostWork } = this.#owner;
      return { ok: true, text: hostWork.measure(() => encodeHost(codec, value, limits.toolResultBytes)) };
    } catch (failure) {
      return {
        ok: false,
        text: JSON.stringify([
          'TypeError',
          `the result of "${call.entry.fullName}" can not be sent: ${messageOf(failure)}`,
        ]),
      };
    }
  }

  #settle(call: Call, answer: Answer): void {
    this.#parked.delete(call.call);
    this.#heldBytes -= call.text.length;
    this.#owner.answer(call.call, answer.ok, answer.text);
  }

  #maySuspend(): void {
    if (this.#suspending !== undefined && this.#running === 0 && !this.#closed)
      this.#owner.suspend(this.#suspending);
  }
}

function namesOf({ call, entry }: Call) {
  return { call, tool: entry.fullName };
}

interface Answer {
  readonly ok: boolean;
  readonly text: string | undefined;
}

function whenAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

/** What a tool throws may be anything, and may throw when it is looked at. Only text goes to the code. */
function messageOf(failure: unknown): string {
  try {
    const message =
      failure instanceof Error
        ? failure.message
        : typeof failure === 'string'
          ? failure
          : JSON.stringify(failure);
    return String(message).slice(0, 8192);
  } catch {
    return 'the tool failed';
  }
}

function nameOf(failure: unknown): string {
  try {
    return failure instanceof Error && /^[A-Za-z]{1,64}$/.test(failure.name) ? failure.name : 'Error';
  } catch {
    return 'Error';
  }
}
