/**
 * Part of the guest kernel: its beginning and its end. `bootKernel` is called once per realm, by the engine, before any
 * foreign code; it answers with the one function through which the engine speaks to the kernel from then on.
 */
import { encodeValue, type EncodeFailure } from './encode.ts';
import { hardenRealm } from './harden.ts';
import { inspectValue } from './inspect.ts';
import { capturePrimordials } from './primordials.ts';
import { type Emit, freezeFunction, guardEmit, type KernelState, type RunSettings } from './state.ts';
import { decodeAnswer, describeFailure, makeNamespaces, settleCall } from './tools.ts';
import { installRandom } from './random.ts';
import { fireTimer, makeTimers, parkTimers, startTimersAgain } from './timers.ts';
import { makeConsole, makeOutput } from './console.ts';

/**
 * What the engine may ask: `open` (settings as JSON), `run` (the code's function), `settle` (call, ok, text),
 * `fire` (timer), `park` before the realm is saved and `unpark` after it was restored.
 */
export type Dispatch = (
  ...message: readonly [operation: string, a?: unknown, b?: unknown, c?: unknown]
) => void;

export function bootKernel(emit: Emit): Dispatch {
  const p = capturePrimordials();
  const seedRandom = installRandom();
  hardenRealm(p);
  const k: KernelState = {
    p,
    emit: guardEmit(emit),
    settings: {
      codec: 'json',
      argBytes: 0,
      resultBytes: 0,
      logBytes: 0,
      logLines: 0,
      timers: 0,
      seed: '',
      tools: [],
      namespaces: [],
    },
    closed: false,
    logLines: 0,
    logBytes: 0,
    logDropped: 0,
    outputBytes: 0,
    calls: 0,
    pending: new Map(),
    timerCount: 0,
    timers: new Map(),
    fail: (thrown) => finishBadly(k, 'runtime', thrown),
  };
  return (...[operation, a, b, c]) => {
    switch (operation) {
      case 'open':
        openRun(k, JSON.parse(a as string), seedRandom);
        return;
      case 'run':
        void runCode(k, a as (input: unknown) => unknown);
        return;
      case 'settle':
        if (!k.closed) settleCall(k, a as number, { ok: b === true, text: c as string | undefined });
        return;
      case 'fire':
        fireTimer(k, a as number);
        return;
      case 'park':
        parkTimers(k);
        return;
      case 'unpark':
        startTimersAgain(k);
        return;
      default:
    }
  };
}

/** The globals of this run. From here on the global object takes nothing more. */
export function openRun(k: KernelState, settings: RunSettings, seedRandom: (seed: string) => void): void {
  k.settings = settings;
  seedRandom(settings.seed);
  const define = (name: string, value: unknown, enumerable: boolean) =>
    Object.defineProperty(globalThis, name, { value, writable: false, enumerable, configurable: false });
  for (const [name, value] of Object.entries(makeTimers(k))) define(name, value, false);
  for (const [name, value] of Object.entries(makeOutput(k))) define(name, value, false);
  define('console', makeConsole(k), false);
  // What `source/guard.ts` puts in the place of `import`.
  define('$mport', makeImport(), false);
  for (const [name, space] of makeNamespaces(k)) define(name, space, true);
  if (settings.input !== undefined) define('input', decodeAnswer(k, settings.input), true);
  // A place for `global.x = 1`, as programs written for Node do; the real global object stays closed.
  define('global', Object.create(globalThis), false);
  sealGlobal();
}

export function makeImport(): unknown {
  const refuse = () => Promise.reject(new TypeError('import() is not available: use the tools'));
  return freezeFunction(refuse, 'import');
}

/** Engines whose global object can't be sealed (vm2's is a Proxy) keep their locked members. */
export function sealGlobal(): void {
  try {
    Object.seal(globalThis);
  } catch {
    Object.preventExtensions(Object.getPrototypeOf(globalThis) ?? {});
  }
}

export async function runCode(k: KernelState, code: (input: unknown) => unknown): Promise<void> {
  let value: unknown;
  try {
    value = await code(k.settings.input === undefined ? undefined : decodeAnswer(k, k.settings.input));
  } catch (thrown) {
    finishBadly(k, 'runtime', thrown);
    return;
  }
  if (k.closed) return;
  let text: string | undefined;
  try {
    text = encodeResult(k, value);
  } catch (failure) {
    const known = failure as Partial<EncodeFailure> | undefined | null;
    const kind = readKind(known);
    finishWith(k, kind, {
      name: 'TypeError',
      message: `Result is not serialisable: ${describeFailure(failure)}`,
    });
    return;
  }
  close(k);
  k.emit('done', true, text, k.logDropped);
}

export function readKind(
  failure: Partial<EncodeFailure> | undefined | null,
): 'serialization' | 'result-limit' {
  try {
    return failure?.encodeFailure === 'result-limit' ? 'result-limit' : 'serialization';
  } catch {
    return 'serialization';
  }
}

export function encodeResult(k: KernelState, value: unknown): string | undefined {
  if (value === undefined) return undefined;
  if (k.settings.codec === 'structured')
    return encodeValue(k.p, value, { bytesMax: k.settings.resultBytes, dropFunctions: false });
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined) throw { encodeFailure: 'serialization', message: `it is a ${typeof value}` };
  if (text.length > k.settings.resultBytes)
    throw { encodeFailure: 'result-limit', message: `it is larger than ${k.settings.resultBytes} bytes` };
  return text;
}

export function close(k: KernelState): void {
  k.closed = true;
  k.timers.clear();
  k.pending.clear();
}

export function finishBadly(k: KernelState, kind: string, thrown: unknown): void {
  finishWith(k, kind, describeThrown(k, thrown));
}

export function finishWith(
  k: KernelState,
  kind: string,
  error: { readonly name: string; readonly message: string; readonly stack?: string },
): void {
  if (k.closed) return;
  close(k);
  k.emit('done', false, JSON.stringify({ kind, ...error }), k.logDropped);
}

/** What was thrown, as three strings. It may be anything, and may throw when it is looked at. */
export function describeThrown(
  k: KernelState,
  thrown: unknown,
): { readonly name: string; readonly message: string; readonly stack: string } {
  const read = (key: 'name' | 'message' | 'stack', otherwise: string) => {
    try {
      const value: unknown = (thrown as Record<string, unknown>)[key];
      return typeof value === 'string' ? value.slice(0, 8192) : otherwise;
    } catch {
      return otherwise;
    }
  };
  let isError = false;
  try {
    isError = thrown instanceof Error;
  } catch {
    // A Proxy that refuses even that.
  }
  if (!isError) return { name: 'Error', message: inspectValue(k.p, thrown, 8192), stack: '' };
  return { name: read('name', 'Error'), message: read('message', ''), stack: read('stack', '') };
}
