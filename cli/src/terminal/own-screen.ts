/**
 * A screen of ours over that of a program that runs, and the program's own again behind it.
 *
 * What a newcomer would get wrong: the program may be hostile, and what it has written before decides how a terminal shows what we write.
 * So a screen of ours begins with letters that are seen, whatever was done to them. What is remembered of the program's output is how it
 * wants the terminal afterwards, and no more: one that deceives us there has spoiled its own screen.
 */
import { printText, standardOutput } from '../output/print.ts';
import { nothingBegun, ordinaryLetters } from './taken-back.ts';

/** Private modes as `ordinaryLetters` and we set them. */
const ourModes: ReadonlyMap<number, boolean> = new Map([
  [5, false],
  [6, false],
  [7, true],
  [25, true],
  [69, false],
  [1000, false],
  [1002, false],
  [1003, false],
  [1004, false],
  [2004, false],
]);
const alternateModes: readonly number[] = [47, 1047, 1049];

/** A reset, private modes, what keys beside letters send. */
const sequences = new RegExp(String.raw`\u001b(?:(c)|\[\?([\d;]{1,64})([hl])|\[>4(?:;([0-3]))?m)`, 'g');
const unfinished = new RegExp(String.raw`\u001b(?:\[[?>]?[\d;]{0,64})?$`);

/** A printer or a status line that gets all; keys as without a program; origin, left and right margin, letters that move others. */
const ours = `${nothingBegun}\u001b[4i\u001b[0$}\u001b[>0u${ordinaryLetters}\u001b[?6l\u001b[?69l\u001b[4l`;
const cleared = '\u001b[H\u001b[2J';
const alternate = { enter: '\u001b[?1049h', leave: '\u001b[?1049l' };

export class OwnScreen {
  readonly #isDumb = process.env['TERM'] === 'dumb';
  readonly #modes = new Map<number, boolean>();
  #isAlternate = false;
  #keys = '';
  #rest = '';
  #name: string | undefined;

  /** It writes on the ordinary screen, among the lines that were there before it. */
  get isAmongLines(): boolean {
    return !this.#isAlternate;
  }

  /** In the middle of a sequence what we write would be a part of it. */
  get isWithinSequence(): boolean {
    return this.#rest !== '';
  }

  /** Output of the program, as it comes. */
  heed(data: Uint8Array): void {
    const text = this.#rest + Buffer.from(data).toString('latin1');
    for (const [, reset, modes, how, keys = ''] of text.matchAll(sequences)) {
      if (reset !== undefined) {
        this.#modes.clear();
        this.#isAlternate = false;
        this.#keys = '';
      } else if (modes === undefined) this.#keys = keys;
      else for (const mode of modes.split(';')) this.#set(Number(mode), how === 'h');
    }
    this.#rest = unfinished.exec(text)?.[0] ?? '';
  }

  #set(mode: number, isOn: boolean): void {
    if (alternateModes.includes(mode)) this.#isAlternate = isOn;
    else if (ourModes.has(mode)) this.#modes.set(mode, isOn);
  }

  /** An empty screen. */
  take(): void {
    if (this.#isDumb) return;
    print(`${this.#isAlternate ? nothingBegun : nothingBegun + alternate.enter}${ours}${cleared}`);
  }

  /** Lines on an empty screen. */
  show(text: string): void {
    print(`${this.#isDumb ? '\r\n' : cleared}${text.replaceAll('\n', '\r\n')}`);
  }

  /** @returns whether the program has to draw it */
  giveBack(): boolean {
    if (this.#isDumb) {
      print('\r\n');
      return false;
    }
    const modes = [...this.#modes]
      .filter(([mode, isOn]) => ourModes.get(mode) !== isOn)
      .map(([mode, isOn]) => `\u001b[?${mode}${isOn ? 'h' : 'l'}`);
    const keys = this.#keys === '' ? '' : `\u001b[>4;${this.#keys}m`;
    const leave = this.#isAlternate ? cleared : alternate.leave;
    print(`\u001b[<1u${modes.join('')}${keys}${leave}`);
    return this.#isAlternate;
  }

  /** The window is called so until it is called nothing; then as before. */
  call(name: string | undefined): void {
    if (this.#isDumb || name === this.#name) return;
    const kept = this.#name === undefined ? '\u001b[22;2t' : '';
    print(name === undefined ? '\u001b[23;2t' : `${kept}\u001b]2;${name}\u001b\\`);
    this.#name = name;
  }

  /** What is written beside the program's own. */
  announce(line: string): void {
    print(this.#isAlternate ? '\u0007' : `\u0007\r\n${line}\r\n`);
  }
}

function print(text: string): void {
  printText(standardOutput, text);
}
