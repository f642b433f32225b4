/**
 * Reads the fields of a frame into values that can't be wrong: each wanted field at most once, in its range, and
 * nothing that nobody asked for.
 *
 * A newcomer forgets `done()`: only it notices a field that has no business in the frame.
 */
import type { Field } from './codec.ts';
import { FrameError } from './codec.ts';
import { type FieldName, integerMax } from './frames.ts';

export class FieldReader {
  readonly #values = new Map<FieldName, (number | Uint8Array)[]>();

  constructor(fields: readonly Field[]) {
    for (const { name, value } of fields) {
      const same = this.#values.get(name);
      if (same === undefined) this.#values.set(name, [value]);
      else same.push(value);
    }
  }

  /** @throws FrameError where it is missing, repeated, or outside `min` … `max` */
  integer(name: FieldName, range?: { readonly min?: number; readonly max?: number }): number {
    return present(name, this.optionalInteger(name, range));
  }

  optionalInteger(
    name: FieldName,
    range: { readonly min?: number; readonly max?: number } = {},
  ): number | undefined {
    const value = this.#take(name);
    if (value === undefined) return undefined;
    const { min = 0, max = integerMax } = range;
    if (typeof value !== 'number' || value < min || value > max) {
      throw new FrameError('field', `field "${name}" is not in ${min} … ${max}`);
    }
    return value;
  }

  /** 0 or 1; missing is false. */
  flag(name: FieldName): boolean {
    return this.optionalInteger(name, { max: 1 }) === 1;
  }

  /** @throws FrameError where it is missing, repeated or longer than `bytesMax` */
  bytes(name: FieldName, bytesMax: number): Uint8Array {
    return present(name, this.optionalBytes(name, bytesMax));
  }

  optionalBytes(name: FieldName, bytesMax: number): Uint8Array | undefined {
    const value = this.#take(name);
    if (value === undefined) return undefined;
    if (typeof value === 'number' || value.length > bytesMax) {
      throw new FrameError('field', `field "${name}" is longer than ${bytesMax} bytes`);
    }
    return value;
  }

  /** @throws FrameError also where the bytes are not UTF-8 */
  text(name: FieldName, bytesMax: number): string {
    return decodeText(name, this.bytes(name, bytesMax));
  }

  optionalText(name: FieldName, bytesMax: number): string | undefined {
    const value = this.optionalBytes(name, bytesMax);
    return value === undefined ? undefined : decodeText(name, value);
  }

  /** A repeated field, possibly none. */
  texts(name: FieldName, bytesMax: number): string[] {
    const values = this.#values.get(name) ?? [];
    this.#values.delete(name);
    return values.map((value) => {
      if (typeof value === 'number' || value.length > bytesMax) {
        throw new FrameError('field', `field "${name}" is longer than ${bytesMax} bytes`);
      }
      return decodeText(name, value);
    });
  }

  /** @throws FrameError where a field was not asked for */
  done(): void {
    for (const name of this.#values.keys())
      throw new FrameError('field', `field "${name}" is not expected here`);
  }

  #take(name: FieldName): number | Uint8Array | undefined {
    const values = this.#values.get(name);
    if (values === undefined) return undefined;
    this.#values.delete(name);
    if (values.length > 1) throw new FrameError('field', `field "${name}" is repeated`);
    return values[0];
  }
}

function present<T>(name: FieldName, value: T | undefined): T {
  if (value === undefined) throw new FrameError('field', `field "${name}" is missing`);
  return value;
}

const strictText = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function decodeText(name: FieldName, bytes: Uint8Array): string {
  try {
    return strictText.decode(bytes);
  } catch {
    throw new FrameError('field', `field "${name}" is not UTF-8`); // The decoder's own error says no more.
  }
}
