/**
 * Takes real values out of one response: in headers, trailers and body, in every form of `value-forms.ts`.
 *
 * It is a second line. A server that wants to can send a value back in a form nobody looks for; who may have a secret
 * is decided by `allowed_hosts`, not here.
 */
import type { Destination } from '@squash/policy/policy';
import { AnswerFilter, chained } from './answer-filters.ts';
import type { ByteFilter } from '../flow/pump.ts';
import { type OnMatch, Replacer, Watcher } from './stream-filter.ts';
import type { TrafficSecrets } from './traffic-secrets.ts';

/** A value in an answer that can not be changed any more: the answer is broken off. */
export class ValueInAnswer extends Error {
  constructor() {
    super('the answer holds a secret’s value where it can not be replaced');
    this.name = 'ValueInAnswer';
  }
}

export class ResponseSecrets {
  readonly #traffic: TrafficSecrets;
  readonly #destination: Destination;

  /** @param destination whose answers they are */
  constructor(traffic: TrafficSecrets, destination: Destination) {
    this.#traffic = traffic;
    this.#destination = destination;
  }

  get isNeeded(): boolean {
    return !this.#traffic.isEmpty;
  }

  /** @param list names and values in turn, as Node has them (each character a byte) */
  headers(list: readonly string[]): readonly string[] {
    if (!this.isNeeded || !this.contains(Buffer.from(list.join('\n'), 'latin1'))) return list;
    return list.map((value) => {
      const filter = new Replacer(this.#traffic.values, (placeholder) => placeholder);
      return Buffer.concat([filter.push(Buffer.from(value, 'latin1')), filter.end()]).toString('latin1');
    });
  }

  /** For a body without content coding. */
  bodyFilter(): ByteFilter {
    return this.#filter((placeholder) => placeholder);
  }

  /** As `bodyFilter`, with every replacement cut or filled up to the length of what it replaces. */
  fittingFilter(): ByteFilter {
    return this.#filter((placeholder, length) => {
      const fitted = Buffer.alloc(length, '.');
      placeholder.copy(fitted);
      return fitted;
    });
  }

  /** For a body that can not be changed. @throws ValueInAnswer from the filter where it holds a value */
  bodyGuard(): ByteFilter {
    return new Watcher(this.#traffic.values, () => {
      throw new ValueInAnswer();
    });
  }

  #filter(onMatch: OnMatch<Buffer>): ByteFilter {
    const { own, others } = this.#traffic.answerValues(this.#destination);
    const passing = new AnswerFilter(others, onMatch, { waits: false });
    if (own.isEmpty) return passing;
    const waiting = new AnswerFilter(own, onMatch, { waits: true });
    return others.isEmpty ? waiting : chained(waiting, passing);
  }

  contains(bytes: Uint8Array): boolean {
    return this.#traffic.values.find(bytes, 0, true) !== undefined;
  }
}
