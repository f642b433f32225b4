#!/usr/bin/env node
/** The program's entry: runs the built CLI where it fits the sources, else the sources. `base/bin/built.cjs` says why. */
'use strict';
if (Number(process.versions.node.split('.', 1)[0]) < 24) {
  const shell = require('node:path').join(__dirname, '../../squash');
  console.error(`squash: Node 24 or later is needed, and this is ${process.version}; ${shell} finds the one it came with`);
  process.exit(1);
}
const { load } = require('../../base/bin/built.cjs');

const program = load('cli/src/main.ts', true);
if (program === undefined) {
  void import('./squash.mjs');
} else {
  // All output is written; Node's own way out, which frees all memory first, costs 1 ms.
  void program.start(process.argv.slice(2)).then(() => process.exit());
}
