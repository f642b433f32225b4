/** Part of the guest kernel: timers. The host's clock tells when; functions only, and a bounded number of them. */
import type { KernelState } from './state.ts';
import { freezeFunction } from './state.ts';

export interface Timers {
  readonly setTimeout: unknown;
  readonly setInterval: unknown;
  readonly clearTimeout: unknown;
  readonly clearInterval: unknown;
  readonly queueMicrotask: unknown;
}

export function makeTimers(k: KernelState): Timers {
  const now = Date.now;
  const start = (repeats: boolean) => (run: unknown, delay: unknown, args: readonly unknown[]) => {
    if (typeof run !== 'function') throw new TypeError('a timer takes a function');
    if (k.timers.size >= k.settings.timers) throw new RangeError(`more than ${k.settings.timers} timers`);
    const wanted = Number(delay);
    // The same clamp as everywhere: NaN and negative are none, beyond 2^31 - 1 would wrap.
    const clamped = wanted > 0 ? (wanted > 2_147_483_647 ? 2_147_483_647 : wanted) : 0;
    const ms = repeats && clamped < 1 ? 1 : clamped;
    k.timerCount += 1;
    const id = k.timerCount;
    k.timers.set(id, { run: () => Reflect.apply(run, undefined, args), repeats, ms, due: now() + ms });
    k.emit('timer', id, ms, repeats ? 1 : 0);
    return id;
  };
  const clear = (id: unknown) => {
    if (typeof id === 'number' && k.timers.delete(id)) k.emit('timer', id, -1, 0);
  };
  const once = start(false);
  const every = start(true);
  const microtask = (run: unknown) => {
    if (typeof run !== 'function') throw new TypeError('queueMicrotask() takes a function');
    void Promise.resolve().then(() => runCallback(k, () => Reflect.apply(run, undefined, [])));
  };
  return {
    setTimeout: freezeFunction(
      (run: unknown, delay: unknown, ...args: unknown[]) => once(run, delay, args),
      'setTimeout',
    ),
    setInterval: freezeFunction(
      (run: unknown, delay: unknown, ...args: unknown[]) => every(run, delay, args),
      'setInterval',
    ),
    clearTimeout: freezeFunction((id: unknown) => clear(id), 'clearTimeout'),
    clearInterval: freezeFunction((id: unknown) => clear(id), 'clearInterval'),
    queueMicrotask: freezeFunction((run: unknown) => microtask(run), 'queueMicrotask'),
  };
}

export function fireTimer(k: KernelState, id: number): void {
  const timer = k.timers.get(id);
  if (timer === undefined || k.closed) return;
  if (!timer.repeats) k.timers.delete(id);
  runCallback(k, timer.run);
}

/** A callback that throws has nobody to tell: it ends the run, as it would end a program. */
export function runCallback(k: KernelState, run: () => void): void {
  try {
    run();
  } catch (thrown) {
    k.fail(thrown);
  }
}

/** Before the realm is saved: the time until it goes on does not count. */
export function parkTimers(k: KernelState): void {
  const now = Date.now();
  for (const timer of k.timers.values()) timer.due = timer.due > now ? timer.due - now : 0;
}

/** In the worker that goes on, which knows none of them. */
export function startTimersAgain(k: KernelState): void {
  const now = Date.now();
  for (const [id, timer] of k.timers) {
    const ms = timer.repeats ? timer.ms : timer.due;
    timer.due = now + ms;
    k.emit('timer', id, ms, timer.repeats ? 1 : 0);
  }
}
