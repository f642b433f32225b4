/**
 * Part of the guest kernel: `console`, and `text()` and `image()` for what a person shall see. Lines go to the host as they are
 * made; after the run's limits they are only counted.
 */
import type { KernelState } from './state.ts';
import { freezeFunction } from './state.ts';
import { inspectAll } from './inspect.ts';

export function writeLog(k: KernelState, level: string, values: readonly unknown[]): void {
  if (k.closed) return;
  if (k.logLines >= k.settings.logLines || k.logBytes >= k.settings.logBytes) {
    k.logDropped += 1;
    return;
  }
  const left = k.settings.logBytes - k.logBytes;
  // The longest single line: more is a dump that belongs into the result.
  const text = inspectAll(k.p, values, left < 65_536 ? left : 65_536);
  k.logLines += 1;
  k.logBytes += text.length + 1;
  k.emit('log', level, text);
}

export function makeConsole(k: KernelState): object {
  const made: Record<string, unknown> = Object.create(null);
  const add = (name: string, method: (...values: unknown[]) => void) => {
    made[name] = freezeFunction(method, name);
  };
  for (const level of ['log', 'info', 'debug', 'trace', 'warn', 'error'])
    add(level, (...values) => writeLog(k, level, values));
  add('dir', (value) => writeLog(k, 'log', [value]));
  add('table', (value) => writeLog(k, 'log', [value]));
  add('group', (...values) => writeLog(k, 'log', values));
  add('groupCollapsed', (...values) => writeLog(k, 'log', values));
  add('groupEnd', () => {});
  add('assert', (condition, ...values) => {
    if (!condition) writeLog(k, 'error', ['Assertion failed', ...values]);
  });
  const counts = new Map<string, number>();
  add('count', (label) => {
    const name = label === undefined ? 'default' : `${label}`;
    const count = (counts.get(name) ?? 0) + 1;
    if (counts.size < 1000 || counts.has(name)) counts.set(name, count);
    writeLog(k, 'log', [`${name}: ${count}`]);
  });
  add('countReset', (label) => {
    counts.delete(label === undefined ? 'default' : `${label}`);
  });
  const began = new Map<string, number>();
  const now = Date.now;
  const time = (label: unknown) =>
    writeLog(k, 'log', [
      `${label ?? 'default'}: ${now() - (began.get(`${label ?? 'default'}`) ?? now())} ms`,
    ]);
  add('time', (label) => {
    if (began.size < 1000) began.set(`${label ?? 'default'}`, now());
  });
  add('timeLog', time);
  add('timeEnd', (label) => {
    time(label);
    began.delete(`${label ?? 'default'}`);
  });
  return Object.freeze(made);
}

/** What a person sees beside the result: content blocks as MCP has them. */
export function makeOutput(k: KernelState): { readonly text: unknown; readonly image: unknown } {
  const put = (json: string) => {
    if (k.closed) return;
    k.outputBytes += json.length;
    if (k.outputBytes > k.settings.resultBytes)
      throw new RangeError(`the output is larger than ${k.settings.resultBytes} bytes`);
    k.emit('out', json);
  };
  return {
    text: freezeFunction(
      (value: unknown) =>
        put(JSON.stringify({ type: 'text', text: inspectAll(k.p, [value], k.settings.resultBytes) })),
      'text',
    ),
    image: freezeFunction((data: unknown, mimeType: unknown) => {
      if (typeof data !== 'string' || typeof mimeType !== 'string')
        throw new TypeError('image() takes base64 text and a media type');
      put(JSON.stringify({ type: 'image', data, mimeType }));
    }, 'image'),
  };
}
