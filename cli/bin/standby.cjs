/** `standby.cjs DIRECTORY SOCKET`: a command line that waits for a call (`cli/src/box/standby.ts`). From the built file or not at all. */
'use strict';
const path = require('node:path');
const { isCurrent, load } = require('../../base/bin/built.cjs');

const source = 'cli/src/main.ts';
const architecture = process.arch === 'arm64' ? 'aarch64' : 'x86_64';
const addon = path.join(__dirname, `../../native/build/${architecture}/take-call.node`);

async function main() {
  const program = load(source, false);
  if (program === undefined) return;
  const loaded = { exports: {} };
  process.dlopen(loaded, addon);
  const words = await program.standBy(process.argv.slice(2), loaded.exports, () => isCurrent(source));
  if (words !== undefined) await program.start(words);
}
void main().then(() => process.exit());
