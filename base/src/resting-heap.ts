/**
 * Gives memory back to the machine when the daemon comes to rest.
 *
 * V8 keeps the pages that a burst of work took: 45 MB after some bursts of a hundred creates, for ever, because it
 * collects only when it allocates and a daemon at rest does not. So once no collection of new objects has been needed
 * for a while, which is what rest is, everything is collected once and the pages go. That stops the process for some
 * 40 ms, at a time when nobody asks.
 */
import { PerformanceObserver } from 'node:perf_hooks';

/** Work makes two megabytes of objects, and with that a collection, some times a second; a daemon at rest hardly any. */
const restMsDefault = 4_000;
/** Less than this is not worth stopping for, and is what V8's own bookkeeping moves about. */
const growthBytesMin = 8_000_000;

/** @returns what ends it; without Node's `--expose-gc` it does nothing */
export function restHeap(options: { readonly restMs?: number } = {}): Disposable {
  const collect = globalThis.gc;
  if (collect === undefined) return { [Symbol.dispose]: () => undefined };
  let restedBytes = 0;
  const timer = setTimeout(() => {
    if (process.memoryUsage.rss() - restedBytes < growthBytesMin) return;
    // A plain collection keeps the pages for later; only this one unmaps them.
    collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
    restedBytes = process.memoryUsage.rss();
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
