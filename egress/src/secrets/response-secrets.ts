/**
 * Takes real values out of one response: in headers, trailers and body, in every form of `value-forms.ts`.
 *
 * It is a second line. A server that wants to can send a value back in a form nobody looks for; who may have a secret
 * is decided by `allowed_hosts`, not here.
 */
import { type ByteFilter, Replacer } from './stream-filter.ts';
import type { TrafficSecrets } from './traffic-secrets.ts';

export class ResponseSecrets {
  readonly #traffic: TrafficSecrets;

  constructor(traffic: TrafficSecrets) {
    this.#traffic = traffic;
  }

  get isNeeded(): boolean {
    return !this.#traffic.isEmpty;
  }

  /** @param list names and values in turn, as Node has them (each character a byte) */
  headers(list: readonly string[]): readonly string[] {
    if (!this.isNeeded || !this.contains(Buffer.from(list.join('\n'), 'latin1'))) return list;
    return list.map((value) => {
      const filter = this.bodyFilter();
      return Buffer.concat([filter.push(Buffer.from(value, 'latin1')), filter.end()]).toString('latin1');
    });
  }

  /** For a body without content coding. */
  bodyFilter(): ByteFilter {
    return new Replacer(this.#traffic.values, (placeholder) => placeholder);
  }

  contains(bytes: Uint8Array): boolean {
    return this.#traffic.values.find(bytes, 0, true) !== undefined;
  }
}
