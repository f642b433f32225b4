/**
 * Reads the fields of SSH's binary forms (RFC 4251, section 5) one after the other. What was read may be hostile: a field that is not whole
 * is undefined, and nothing behind it can be read.
 */
export class SshFields {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  byte(): number | undefined {
    return this.#take(1)?.[0];
  }

  uint32(): number | undefined {
    return this.#take(4)?.readUInt32BE(0);
  }

  /** A string of the protocol: bytes behind their length. */
  bytes(): Buffer | undefined {
    const length = this.uint32();
    return length === undefined ? undefined : this.#take(length);
  }

  #take(count: number): Buffer | undefined {
    const begin = this.#at;
    if (count > this.#bytes.length - begin) {
      this.#at = Number.POSITIVE_INFINITY;
      return undefined;
    }
    this.#at += count;
    return this.#bytes.subarray(begin, this.#at);
  }
}
