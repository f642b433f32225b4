/** Asks for a word that must not be seen: the terminal shows nothing of it. */
import { CliFailure, usageFailure } from '../failure.ts';

/** Longer than any value that is taken. */
const charsMax = 16_384;

/** Standard input is a terminal. Ctrl-C and Ctrl-D give up. */
export async function askHidden(question: string): Promise<string> {
  const { stdin } = process;
  if (!stdin.isTTY) throw usageFailure('there is no terminal to ask on');
  process.stderr.write(question);
  stdin.setRawMode(true);
  stdin.setEncoding('utf8');
  let text = '';
  try {
    for await (const piece of stdin.iterator({ destroyOnReturn: false }) as AsyncIterable<string>) {
      for (const character of piece) {
        if (character === '\r' || character === '\n') return text;
        if (character === '\u0003' || character === '\u0004')
          throw new CliFailure('aborted', 'nothing was done');
        if (character === '\u007f' || character === '\b') text = text.slice(0, -1);
        else text += character;
      }
      if (text.length > charsMax) throw usageFailure(`the value has more than ${charsMax} characters`);
    }
    return text;
  } finally {
    stdin.setRawMode(false);
    stdin.pause();
    process.stderr.write('\n');
  }
}
