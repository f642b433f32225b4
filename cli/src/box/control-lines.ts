/** Lines of a descriptor that whoever started us writes to, each as it comes, one after the other. */
import { fstatSync, readFileSync, type Stats } from 'node:fs';
import { Socket } from 'node:net';
import { StringDecoder } from 'node:string_decoder';
import { CliFailure } from '../failure.ts';

/** Of one line: more is no configuration. */
const lineBytesMax = 1_048_576;

export class ControlLines implements Disposable {
  readonly #descriptor: number;
  readonly #isStream: boolean;
  #socket: Socket | undefined;
  #last: Promise<void> = Promise.resolve();

  /** @throws usage where nothing can be read from it */
  constructor(descriptor: number) {
    this.#descriptor = descriptor;
    const facts = factsOf(descriptor);
    this.#isStream = facts?.isFIFO() === true || facts?.isSocket() === true;
    if (!this.#isStream && facts?.isFile() !== true)
      throw new CliFailure('usage', `--control-fd ${descriptor} is no pipe, socket or file`);
  }

  /** @param take is waited for before the next line; it must not fail */
  begin(take: (line: string) => Promise<void>): void {
    const lines = new Lines();
    if (!this.#isStream) {
      for (const line of lines.add(readFileSync(this.#descriptor))) this.#next(line, take);
      return;
    }
    // A stream of Node's own waits without holding a thread, which the process's end would wait for.
    this.#socket = new Socket({ fd: this.#descriptor, readable: true, writable: false });
    this.#socket.on('data', (part: Buffer) => {
      for (const line of lines.add(part)) this.#next(line, take);
    });
    // Whoever wrote is gone: the rules that hold go on holding.
    this.#socket.on('error', () => {});
    this.#socket.unref();
  }

  #next(line: string, take: (line: string) => Promise<void>): void {
    if (line.trim() !== '') this.#last = this.#last.then(async () => await take(line));
  }

  [Symbol.dispose](): void {
    this.#socket?.destroy();
  }
}

function factsOf(descriptor: number): Stats | undefined {
  try {
    return fstatSync(descriptor);
  } catch {
    // Nobody has opened it.
    return undefined;
  }
}

/** Whole lines out of parts. What is longer than may be becomes an empty object, which is no configuration. */
export class Lines {
  readonly #decoder = new StringDecoder('utf8');
  #rest = '';
  #isTooLong = false;

  add(part: Buffer): readonly string[] {
    const pieces = `${this.#rest}${this.#decoder.write(part)}`.split('\n');
    this.#rest = pieces.pop() ?? '';
    const lines = pieces.map((line, at) => (at === 0 && this.#isTooLong ? '{}' : line));
    if (pieces.length > 0) this.#isTooLong = false;
    if (this.#rest.length > lineBytesMax) {
      this.#isTooLong = true;
      this.#rest = '';
    }
    return lines;
  }
}
