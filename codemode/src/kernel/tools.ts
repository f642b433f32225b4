/**
 * Part of the guest kernel: `codemode` and the other namespaces. Objects without prototype whose members can't be replaced;
 * a call becomes a promise here and a message to the host, which alone knows what the tool is.
 */
import { decodeValue } from './decode.ts';
import { type EncodeFailure, encodeValue } from './encode.ts';
import type { KernelState } from './state.ts';
import { freezeFunction } from './state.ts';

export function makeNamespaces(k: KernelState): ReadonlyMap<string, object> {
  const roots = new Map<string, object>();
  const made: Record<string, unknown>[] = [];
  const fresh = () => {
    const space: Record<string, unknown> = Object.create(null);
    made[made.length] = space;
    return space;
  };
  for (const name of k.settings.namespaces) roots.set(name, fresh());
  for (let number = 0; number < k.settings.tools.length; number += 1) {
    const path = k.settings.tools[number] ?? [];
    let space = roots.get(path[0] ?? '') as Record<string, unknown>;
    for (let at = 1; at < path.length - 1; at += 1) {
      const name = path[at] ?? '';
      space = (space[name] ??= fresh()) as Record<string, unknown>;
    }
    space[path[path.length - 1] ?? ''] = makeTool(k, number, path);
  }
  for (const space of made) Object.freeze(space);
  return roots;
}

export function makeTool(k: KernelState, number: number, path: readonly string[]): unknown {
  const full = path.join('.');
  const tool = (...args: unknown[]) =>
    new Promise((resolve, reject) => {
      if (k.closed) throw new Error(`The code execution finished before "${full}" was called.`);
      const text = encodeArguments(k, full, args);
      k.calls += 1;
      const call = k.calls;
      k.pending.set(call, { resolve, reject });
      k.emit('call', call, number, text);
    });
  return freezeFunction(tool, path[path.length - 1] ?? '');
}

export function encodeArguments(k: KernelState, full: string, args: readonly unknown[]): string {
  let reason: string;
  try {
    if (k.settings.codec === 'structured')
      return encodeValue(k.p, args, { bytesMax: k.settings.argBytes, dropFunctions: false });
    const text = JSON.stringify(args);
    if (text.length <= k.settings.argBytes) return text;
    reason = `it is larger than ${k.settings.argBytes} bytes`;
  } catch (failure) {
    reason = describeFailure(failure);
  }
  throw new TypeError(`the arguments of "${full}" can not be sent: ${reason}`);
}

export function describeFailure(failure: unknown): string {
  try {
    const known = failure as EncodeFailure | Error | undefined | null;
    return `${known?.message ?? failure}`.slice(0, 1000);
  } catch {
    return 'it throws when it is read';
  }
}

/** The host's answer to a call. An unknown number (settled twice, never made) is nothing. */
export function settleCall(
  k: KernelState,
  call: number,
  answer: { readonly ok: boolean; readonly text: string | undefined },
): void {
  const waiting = k.pending.get(call);
  if (waiting === undefined) return;
  k.pending.delete(call);
  if (!answer.ok) {
    const [name, message] = JSON.parse(answer.text ?? '["Error",""]');
    const error = new Error(message);
    if (name !== 'Error')
      Object.defineProperty(error, 'name', {
        value: name,
        writable: true,
        enumerable: false,
        configurable: true,
      });
    waiting.reject(error);
    return;
  }
  // Decoded values hold no functions, so a `then` among them is data and is not called.
  waiting.resolve(decodeAnswer(k, answer.text));
}

export function decodeAnswer(k: KernelState, text: string | undefined): unknown {
  if (text === undefined) return undefined;
  return k.settings.codec === 'structured' ? decodeValue(k.p, text) : JSON.parse(text);
}
