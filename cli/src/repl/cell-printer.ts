/**
 * What cells write and show, on our standard streams. A terminal gets nothing from a sandbox that could move about on it or make it type:
 * it is also where we are told what to do here. Pipes and files get every character.
 */
import { isatty } from 'node:tty';
import type { CellEvent } from '@squash/sdk';
import { formatBytes, standardError, standardOutput, visibleOutput } from '../output/print.ts';
import { openOutputSink, type OutputSink } from '../terminal/output-sink.ts';
import { Shown } from './shown.ts';

/** The beginning of a colour whose end comes with the next piece. */
// oxlint-disable-next-line no-control-regex
const colourBegun = /\u001b(?:\[[\d;:]{0,64})?$/;
const coloursOff = '\u001b[0m';

type Ended = Extract<CellEvent, { type: 'end' }>;

/** One stream, and where its cursor is. */
class Stream {
  readonly isTerminal: boolean;
  readonly #sink: OutputSink;
  #held = '';
  #isColoured = false;
  #isMidLine = false;

  constructor(descriptor: typeof standardOutput | typeof standardError) {
    this.isTerminal = isatty(descriptor);
    this.#sink = openOutputSink(descriptor);
  }

  async write(text: string): Promise<void> {
    let whole = text;
    if (this.isTerminal) {
      const all = this.#held + text;
      this.#held = colourBegun.exec(all)?.[0] ?? '';
      whole = visibleOutput(all.slice(0, all.length - this.#held.length));
      this.#isColoured ||= whole.includes('\u001b');
    }
    await this.#put(whole);
  }

  /** Begins a line of its own. */
  async line(text: string): Promise<void> {
    await this.settle();
    await this.write(text.endsWith('\n') ? text : `${text}\n`);
  }

  /** To the beginning of a line, in the terminal's own colours. */
  async settle(): Promise<void> {
    const held = this.#held === '' ? '' : visibleOutput(this.#held);
    const colours = this.#isColoured ? coloursOff : '';
    this.#held = '';
    this.#isColoured = false;
    await this.#put(held + colours);
    if (this.#isMidLine) await this.#put('\n');
  }

  async #put(text: string): Promise<void> {
    if (text === '') return;
    if (text !== coloursOff) this.#isMidLine = !text.endsWith('\n');
    await this.#sink.write(Buffer.from(text));
  }
}

export class CellPrinter {
  readonly #stdout = new Stream(standardOutput);
  /** A terminal is one, with one cursor. */
  readonly #stderr =
    this.#stdout.isTerminal && isatty(standardError) ? this.#stdout : new Stream(standardError);
  readonly #hasHints: boolean;
  #isNew = false;
  #shown = new Shown();

  /** @param hasHints somebody is there who can save what was shown */
  constructor(hasHints: boolean) {
    this.#hasHints = hasHints;
  }

  /** What was shown last. */
  get shown(): Shown {
    return this.#shown;
  }

  async take(event: CellEvent): Promise<void> {
    switch (event.type) {
      case 'cell':
        this.#isNew = true;
        break;
      case 'stdout':
        await this.#stdout.write(event.text);
        break;
      case 'stderr':
        await this.#stderr.write(event.text);
        break;
      case 'result':
        if (this.#isNew) this.#shown = new Shown();
        this.#isNew = false;
        for (const line of this.#shown.add(event, this.#hasHints)) await this.#stdout.line(line);
        break;
      case 'exception':
        await this.#both();
        await this.#stderr.line(event.traceback || `${event.name}: ${event.message}`);
        break;
      case 'gap':
        await this.#stderr.line(`squash: ${event.bytes} bytes of output are not kept any more`);
        break;
      case 'clear':
        break;
      case 'end':
        await this.#end(event);
        break;
    }
  }

  async #end({ cut, status }: Ended): Promise<void> {
    await this.#both();
    const bytes = cut.stdout_bytes + cut.stderr_bytes;
    if (bytes > 0) await this.#stderr.line(`squash: ${formatBytes(bytes)} more of output were left out`);
    if (cut.results > 0) await this.#stderr.line(`squash: ${cut.results} more results were left out`);
    if (status === 'timeout') await this.#stderr.line('squash: the cell ran out of time and was interrupted');
  }

  /** Only on a terminal, where both are one. */
  async #both(): Promise<void> {
    for (const stream of [this.#stdout, this.#stderr]) if (stream.isTerminal) await stream.settle();
  }
}
