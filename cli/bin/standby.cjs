/** `standby.cjs DIRECTORY SOCKET`: a command line that waits for a call (`cli/src/box/standby.ts`). From the built file or not at all. */
'use strict';
const { isCurrent, load } = require('../../base/bin/built.cjs');

const source = 'cli/src/main.ts';

async function main() {
  const program = load(source, false);
  if (program === undefined) return;
  const words = await program.standBy(process.argv.slice(2), () => isCurrent(source));
  if (words !== undefined) await program.start(words);
}
void main().then(() => process.exit());
