/** Keeps the beginning and the end of an output of any length, and knows what stood between. */

export interface Kept {
  readonly head: Uint8Array;
  /** Empty where nothing was left out. */
  readonly tail: Uint8Array;
  readonly isCut: boolean;
  /** Bytes between the two. */
  readonly leftOut: number;
  /** Position of the first byte that was left out. */
  readonly leftOutFrom: number;
  /** Position behind the last byte. */
  readonly next: number;
}

const newline = 10;

export class HeadTail {
  readonly #half: number;
  readonly #head: Uint8Array[] = [];
  #headBytes = 0;
  /** Twice the half at most: what is older than the newest half goes. */
  #tail: Uint8Array[] = [];
  #tailBytes = 0;
  #next: number;
  readonly #from: number;
  /** Bytes that the store did not have any more, before what is kept. */
  #missing = 0;

  constructor(bytesMax: number, from: number) {
    this.#half = Math.max(1, Math.floor(bytesMax / 2));
    this.#from = from;
    this.#next = from;
  }

  get next(): number {
    return this.#next;
  }

  get isEmpty(): boolean {
    return this.#headBytes === 0 && this.#missing === 0;
  }

  add(bytes: Uint8Array): void {
    this.#next += bytes.length;
    const room = this.#half - this.#headBytes;
    // Behind a gap nothing joins on to the head.
    const forHead = this.#missing > 0 ? 0 : Math.min(room, bytes.length);
    if (forHead > 0) {
      this.#head.push(bytes.subarray(0, forHead));
      this.#headBytes += forHead;
    }
    if (forHead === bytes.length) return;
    this.#tail.push(bytes.subarray(forHead));
    this.#tailBytes += bytes.length - forHead;
    if (this.#tailBytes > 4 * this.#half) this.#compact();
  }

  /** What the store does not have: it counts as left out. */
  skip(bytes: number): void {
    this.#next += bytes;
    this.#missing += bytes;
    // Between head and tail is one gap alone: what came before this one is left out with it.
    this.#missing += this.#tailBytes;
    this.#tail = [];
    this.#tailBytes = 0;
  }

  /** Cut between lines where they are short enough. */
  kept(): Kept {
    const head = Buffer.concat(this.#head);
    const last = this.#lastHalf();
    const isCut = this.#missing > 0 || last.length < this.#tailBytes;
    if (!isCut) {
      const whole = Buffer.concat([head, last]);
      return {
        head: whole,
        tail: new Uint8Array(),
        isCut,
        leftOut: 0,
        leftOutFrom: this.#next,
        next: this.#next,
      };
    }
    const headEnd = head.lastIndexOf(newline) + 1;
    const lines = headEnd > head.length / 2 ? head.subarray(0, headEnd) : head;
    const begin = last.indexOf(newline) + 1;
    const tail = begin > 0 && begin < last.length / 2 ? last.subarray(begin) : last;
    const leftOutFrom = this.#from + lines.length;
    return {
      head: lines,
      tail,
      isCut,
      leftOut: this.#next - this.#from - lines.length - tail.length,
      leftOutFrom,
      next: this.#next,
    };
  }

  #lastHalf(): Buffer {
    const all = Buffer.concat(this.#tail);
    return all.subarray(Math.max(0, all.length - this.#half));
  }

  #compact(): void {
    const last = Buffer.from(this.#lastHalf());
    // What is dropped here is counted where the parts are put together: by position.
    this.#missing += this.#tailBytes - last.length;
    this.#tail = [last];
    this.#tailBytes = last.length;
  }
}
