/**
 * Runs a program of the project as one built file where that was made from exactly these sources, else its sources:
 * `node base/bin/built.cjs host/src/main.ts …`; the CLI's own entry calls `load` instead.
 *
 * Loading forty TypeScript files costs most of Node's own start again, and the daemon's are three hundred. So
 * `tools/setup/build-programs.ts` puts a program's into one file, with V8's compiled code behind it. That file names
 * every source with time and size, and is used only if all of them are still so: it can't be stale. Where it does not
 * fit, the project's owner builds it again, who waits a third of a second once; anybody else runs the sources.
 *
 * This file is CommonJS because the first `import` in a process loads Node's other module loader, 8 ms beside
 * Node's 23. The built files lie in the project and belong to its owner: who can change them can change the sources.
 *
 * V8 has compiled there what the builder called; the rest it compiles when it is first called, a fifth of what the daemon does for its
 * first sandbox. A program that is started often keeps what it has compiled by then for its next start (`keepCompiled`), in the
 * directory where Node keeps the same of single files.
 */
'use strict';
const fs = require('node:fs');
const { closeSync, fstatSync, openSync, readSync, statSync } = fs;
const path = require('node:path');
const { pathToFileURL } = require('node:url');
const { Script } = require('node:vm');

const root = path.join(__dirname, '../..');
/** What a program starts that may not write here any more is built with it. */
const startedBy = {
  'host/src/serve.ts': ['host/src/main.ts', 'egress/src/main.ts'],
  'host/src/offline.ts': ['host/src/offline-inside.ts'],
};

function builtPath(source) {
  return path.join(root, '.cache/built', source.slice(0, -'.ts'.length));
}

const stats = new Map();

/** Programs have most of their sources in common: each is looked at once. */
function isUnchanged([path, modifiedMs, bytes]) {
  let stat = stats.get(path);
  if (stat === undefined) stats.set(path, (stat = statSync(`${root}/${path}`)));
  return stat.mtimeMs === modifiedMs && stat.size === bytes;
}

/** What a program was loaded from, for `isCurrent`. */
const loadedInputs = new Map();

/** Whether a program that was loaded would be the same if it were loaded now. */
function isCurrent(source) {
  stats.clear();
  try {
    return loadedInputs.get(source).every(isUnchanged);
  } catch {
    // A source is gone.
    return false;
  }
}

/**
 * The built file's parts: a line of JSON, the code, V8's compiled code or what the program has kept of its own. `undefined` where it does not fit.
 * Both codes are read into the same memory, one after the other: what a start touches of it costs more than what it does.
 */
function readBuilt(source) {
  try {
    const file = openSync(builtPath(source));
    try {
      const line = firstLine(file);
      const { inputs, codeBytes } = JSON.parse(line);
      if (!inputs.every(isUnchanged)) return undefined;
      loadedInputs.set(source, inputs);
      const begin = line.length + 1;
      const stat = fstatSync(file);
      const stamp = stampOf(stat);
      const kept = openKept(source, stamp);
      const compiledBytes = kept?.bytes ?? stat.size - begin - codeBytes;
      const memory = Buffer.allocUnsafeSlow(Math.max(codeBytes, compiledBytes));
      const code = read(file, memory.subarray(0, codeBytes), begin).latin1Slice();
      const space = memory.subarray(0, compiledBytes);
      const compiled = kept === undefined ? read(file, space, begin + codeBytes) : readKept(kept, space);
      return { code, compiled, stamp, isKept: kept !== undefined };
    } finally {
      closeSync(file);
    }
  } catch {
    // None yet, a source is gone, or the file is broken: all mean that it has to be built.
    return undefined;
  }
}

function read(file, bytes, position) {
  if (readSync(file, bytes, 0, bytes.length, position) < bytes.length) throw new Error('cut off');
  return bytes;
}

/** Of a built file, and of the Node that compiles it: one line, of which another file or Node has another. */
function stampOf({ dev, ino, size, mtimeMs }) {
  return `${JSON.stringify([process.version, builtPath(''), dev, ino, size, mtimeMs])}\n`;
}

/** Where Node was told to keep compiled code, of which the program's user alone writes. */
function keptPath(source) {
  const directory = process.env.NODE_COMPILE_CACHE;
  return directory && path.join(directory, `${source.replaceAll('/', '-')}.kept`);
}

/** Open, at the compiled code. `undefined` where there is none of this very built file, or one that somebody else could have written. */
function openKept(source, stamp) {
  const place = keptPath(source);
  if (!place) return undefined;
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = fs.constants;
  let file;
  try {
    file = openSync(place, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const stat = fstatSync(file);
    const bytes = stat.size - stamp.length;
    const isOurs = stat.isFile() && stat.uid === process.geteuid() && (stat.mode & 0o022) === 0;
    if (isOurs && bytes > 0 && read(file, Buffer.alloc(stamp.length), 0).latin1Slice() === stamp)
      return { file, bytes, position: stamp.length };
  } catch {
    // None yet.
  }
  if (file !== undefined) closeSync(file);
  return undefined;
}

function readKept({ file, position }, space) {
  try {
    return read(file, space, position);
  } finally {
    closeSync(file);
  }
}

/** The programs that were loaded from built code alone. */
const loadedScripts = new Map();

/**
 * Keeps what V8 has compiled of a loaded program, with all that was called so far; once for each built file. It takes some 50 ms.
 * @returns whether it was written
 */
function keepCompiled(source) {
  const place = keptPath(source);
  const { script, stamp } = loadedScripts.get(source) ?? {};
  if (!place || script === undefined) return false;
  loadedScripts.delete(source);
  const temporary = `${place}.tmp`;
  try {
    // Flushed before it gets its name, and read by nobody else: V8 does not look for torn code.
    const parts = [Buffer.from(stamp, 'latin1'), script.createCachedData()];
    fs.mkdirSync(path.dirname(place), { recursive: true });
    fs.writeFileSync(temporary, Buffer.concat(parts), { mode: 0o600, flush: true });
    fs.renameSync(temporary, place);
    return true;
  } catch {
    // A full disk: the next start is as this one was, and what was written of it gives its room back.
    try {
      fs.rmSync(temporary, { force: true });
    } catch {
      // The program ends all the same.
    }
    return false;
  }
}

/** The same as `readBuilt`, of a program that somebody else runs: its first line is enough. */
function isFresh(source) {
  try {
    const file = openSync(builtPath(source));
    try {
      return JSON.parse(firstLine(file)).inputs.every(isUnchanged);
    } finally {
      closeSync(file);
    }
  } catch {
    return false;
  }
}

function firstLine(file) {
  for (let bytes = 65_536; ; bytes *= 2) {
    const begin = Buffer.allocUnsafe(bytes);
    const read = readSync(file, begin, 0, bytes, 0);
    const end = begin.subarray(0, read).indexOf('\n');
    if (end >= 0 || read < bytes) return begin.latin1Slice(0, end);
  }
}

/** Whether what a program starts is built as its sources are. */
function startsFresh(source) {
  return startedBy[source].every(isFresh);
}

/** False where this user is not the owner: another's files would then lie among the owner's. */
function build(sources) {
  try {
    if (statSync(path.join(root, '.cache')).uid !== process.geteuid()) return false;
  } catch {
    // Nothing was ever set up here: that is the starter's job.
    return false;
  }
  const { spawnSync } = require('node:child_process');
  const builder = path.join(root, 'tools/setup/build-programs.ts');
  return spawnSync(process.execPath, [builder, ...sources], { stdio: 'ignore' }).status === 0;
}

/** What a source names of itself. */
function metaOf(source) {
  const filename = path.join(root, source);
  return { url: pathToFileURL(filename).href, dirname: path.dirname(filename), filename, main: false };
}

/** What the built program exports. `undefined` where its sources have to run. */
function load(source, isBuilder) {
  let built = readBuilt(source);
  if (isBuilder) {
    const wanted = startedBy[source] ?? [];
    const stale = wanted.filter((other) => !isFresh(other));
    if (built === undefined) stale.push(source);
    if (stale.length > 0 && build(stale)) {
      stats.clear();
      built ??= readBuilt(source);
    }
  }
  if (built === undefined) return undefined;
  // Another Node refuses the compiled code and compiles anew: slower, and nothing else.
  const script = new Script(built.code, { filename: builtPath(source), cachedData: built.compiled });
  if (!built.isKept || script.cachedDataRejected) loadedScripts.set(source, { script, stamp: built.stamp });
  const program = { exports: {} };
  script.runInThisContext()(require, program, metaOf);
  return program.exports;
}

module.exports = { isCurrent, keepCompiled, load, metaOf, startsFresh };

if (require.main === module) {
  // From here on as if Node had been given the source: it sees, and others see of it, the same words.
  process.argv.splice(1, 1);
  const source = path.relative(root, process.argv[1]);
  const program = load(source, source in startedBy);
  if (program === undefined) void import(pathToFileURL(process.argv[1])).then(({ start }) => start());
  else void program.start();
}
