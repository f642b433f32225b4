/**
 * The program's entry: runs the built CLI where it was made from exactly these sources, else the sources.
 *
 * Loading forty TypeScript files costs most of Node's own start again, so `tools/setup/build-cli.ts` puts them into
 * one file, with V8's compiled code behind it. That file names every source with time and size, and is used only if
 * all of them are still so: it can't be stale. Where it does not fit, it is built again by the project's owner, who
 * waits a third of a second once; anybody else runs the sources.
 *
 * This file is CommonJS because the first `import` in a process loads Node's other module loader, 8 ms beside
 * Node's 23. The built file lies in the project and belongs to its owner: who can change it can change the sources.
 */
'use strict';
const { readFileSync, statSync } = require('node:fs');
const path = require('node:path');
const { Script } = require('node:vm');

const root = path.join(__dirname, '../..');
const builtPath = path.join(root, '.cache/cli/built');

/** The built file's parts: a line of JSON, the code, V8's compiled code. `undefined` where it does not fit. */
function readBuilt() {
  try {
    const file = readFileSync(builtPath);
    const headEnd = file.indexOf('\n') + 1;
    const { inputs, codeBytes } = JSON.parse(file.latin1Slice(0, headEnd));
    for (const [path, modifiedMs, bytes] of inputs) {
      const stat = statSync(`${root}/${path}`);
      if (stat.mtimeMs !== modifiedMs || stat.size !== bytes) return undefined;
    }
    const codeEnd = headEnd + codeBytes;
    return { code: file.latin1Slice(headEnd, codeEnd), compiled: file.subarray(codeEnd) };
  } catch {
    // None yet, a source is gone, or the file is broken: all mean that it has to be built.
    return undefined;
  }
}

/** False where this user is not the owner: another's files would then lie among the owner's. */
function build() {
  try {
    if (statSync(path.join(root, '.cache')).uid !== process.geteuid()) return false;
  } catch {
    // Nothing was ever set up here: that is the starter's job.
    return false;
  }
  const { spawnSync } = require('node:child_process');
  const builder = path.join(root, 'tools/setup/build-cli.ts');
  return spawnSync(process.execPath, [builder], { stdio: 'ignore' }).status === 0;
}

const built = readBuilt() ?? (build() ? readBuilt() : undefined);
if (built === undefined) {
  void import('./squash.mjs');
} else {
  // Another Node refuses the compiled code and compiles anew: slower, and nothing else.
  const script = new Script(built.code, { filename: builtPath, cachedData: built.compiled });
  const program = { exports: {} };
  script.runInThisContext()(require, program, path.join(root, 'cli/src'));
  // All output is written; Node's own way out, which frees all memory first, costs 1 ms.
  void program.exports.start(process.argv.slice(2)).then(() => process.exit());
}
