/**
 * Gives memory back to the machine when the daemon comes to rest.
 *
 * V8 keeps the pages that a burst of work took: 45 MB after some bursts of a hundred creates, for ever, because it
 * collects only when it allocates and a daemon at rest does not. So once no collection of new objects has been needed
 * for a while, which is what rest is, everything is collected once and the pages go. That stops the process for some
 * 40 ms, at a time when nobody asks. malloc keeps pages too, those of buffers that streams passed in: it is asked to
 * give them back by an addition to Node, `native/node/malloc_trim.c`.
 */
import { PerformanceObserver } from 'node:perf_hooks';
import type { Log } from './log.ts';

/** Work makes two megabytes of objects, and with that a collection, some times a second; a daemon at rest hardly any. */
const restMsDefault = 4_000;
/** Less than this is not worth stopping for, and is what V8's own bookkeeping moves about. */
const growthBytesMin = 8_000_000;
/** A thread of V8 frees the buffers that a collection found unused; it takes a millisecond or some. */
const freeMs = 200;

export interface RestOptions {
  readonly restMs?: number;
  /** Path of `malloc-trim.node`. Where it can't be loaded, only V8's pages are given back and `log` is told. */
  readonly trimAddon?: string;
  readonly log?: Log;
}

/** @returns what ends it; without Node's `--expose-gc` it does nothing */
export function restHeap(options: RestOptions = {}): Disposable {
  const collect = globalThis.gc;
  if (collect === undefined) return { [Symbol.dispose]: () => undefined };
  const trim = loadTrim(options);
  let restedBytes = 0;
  const timer = setTimeout(() => {
    if (process.memoryUsage.rss() - restedBytes < growthBytesMin) return;
    // A plain collection keeps the pages for later; only this one unmaps them.
    collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
    setTimeout(() => {
      trim?.();
      restedBytes = process.memoryUsage.rss();
    }, freeMs).unref();
  }, options.restMs ?? restMsDefault).unref();
  // Every collection, of ours too, begins the wait anew.
  const observer = new PerformanceObserver(() => void timer.refresh());
  observer.observe({ entryTypes: ['gc'] });
  return {
    [Symbol.dispose](): void {
      observer.disconnect();
      clearTimeout(timer);
    },
  };
}

function loadTrim({ trimAddon, log }: RestOptions): (() => unknown) | undefined {
  if (trimAddon === undefined) return undefined;
  const loaded: { exports: unknown } = { exports: {} };
  try {
    process.dlopen(loaded, trimAddon);
  } catch (error) {
    log?.warn('daemon.no_malloc_trim', { error: String(error) });
  }
  return typeof loaded.exports === 'function' ? (loaded.exports as () => unknown) : undefined;
}
