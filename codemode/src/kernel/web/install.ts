/** Part of the guest kernel: what programs of the web and of Node expect beside the language. In place before the realm is frozen, and frozen with it. */
import type { Primordials } from '../primordials.ts';
import { AbortSignal, makeAbortController } from './abort.ts';
import { cloneValue } from './clone.ts';
import { decodeBase64, encodeBase64, TextDecoder, TextEncoder } from './text.ts';
import { URL, URLSearchParams } from './url.ts';

export function installWeb(p: Primordials): void {
  const abortParts = AbortSignal.parts();
  Reflect.deleteProperty(AbortSignal, 'parts');
  URL.link(URLSearchParams.parts());
  Reflect.deleteProperty(URL, 'link');
  Reflect.deleteProperty(URLSearchParams, 'parts');
  const functions = {
    atob: (text: unknown) => decodeBase64(text),
    btoa: (text: unknown) => encodeBase64(text),
    structuredClone: (value: unknown, options?: { readonly transfer?: unknown }) =>
      cloneValue(p, value, options),
  };
  const classes = {
    AbortController: makeAbortController(abortParts),
    AbortSignal,
    TextDecoder,
    TextEncoder,
    URL,
    URLSearchParams,
  };
  for (const [name, value] of Object.entries({ ...functions, ...classes }))
    Object.defineProperty(globalThis, name, { value, writable: true, enumerable: false, configurable: true });
  for (const [name, made] of Object.entries(classes)) {
    const { prototype } = made as { readonly prototype: object };
    Object.defineProperty(prototype, Symbol.toStringTag, { value: name, configurable: true });
  }
}
