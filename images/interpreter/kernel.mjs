/**
 * The kernel of JavaScript and TypeScript: cells are evaluated as a browser's console does, so that a name may be declared again
 * and `await` stands anywhere.
 *
 * The main thread has nothing but the cells; the other thread hears the bridge, so that an endless loop can be interrupted.
 */
import inspector from 'node:inspector';
import { Console } from 'node:console';
import { createReadStream, writeSync } from 'node:fs';
import { createRequire, stripTypeScriptTypes } from 'node:module';
import { createInterface } from 'node:readline';
import { inspect } from 'node:util';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { parse } from './acorn.mjs';

function connected() {
  const session = new inspector.Session();
  session.connect();
  return session;
}

function hearBridge() {
  const session = new inspector.Session();
  session.connectToMainThread();
  let current = 0;
  parentPort.on('message', (ended) => {
    if (ended === current) current = 0;
  });
  let cell = 0;
  createInterface({ input: createReadStream('', { fd: workerData.listen }) }).on('line', (line) => {
    const command = JSON.parse(line);
    if (command.op === 'run') {
      cell += 1;
      current = cell;
      parentPort.postMessage({ cell, code: command.code });
    } else if (current !== 0) interrupt(current);
  });

  function interrupt(wanted) {
    let looks = 0;
    const look = () => {
      if (current !== wanted) clearInterval(timer);
      // Once a second: what came before the cell's own code may have ended something else.
      else if (looks++ % 50 === 0) session.post('Runtime.terminateExecution', () => {});
      // A cell that awaits has nothing to terminate, and the message that tells it may be what is terminated.
      else parentPort.postMessage({ interrupted: wanted });
    };
    const timer = setInterval(look, 20);
    look();
  }
}

function runCells() {
  const [listen, tell, language] = [Number(process.argv[2]), Number(process.argv[3]), process.argv[4]];
  process.argv.length = 1;
  const say = (event) => {
    const data = Buffer.from(`${JSON.stringify(event)}\n`);
    for (let at = 0; at < data.length; ) at += writeSync(tell, data, at);
  };
  takeOver(say);
  setGlobals(say);
  const cells = new Cells(say, language);
  const worker = new Worker(new URL(import.meta.url), { workerData: { listen } });
  let ended = 0;
  const end = (cell, ok) => {
    if (cell <= ended) return;
    ended = cell;
    say({ type: 'done', ok });
    worker.postMessage(cell);
  };
  worker.on('message', ({ cell, code, interrupted }) => {
    if (cell !== undefined) void cells.run(cell, code).then((ok) => end(cell, ok));
    else if (interrupted > ended && cells.halt(interrupted)) end(interrupted, false);
  });
  // The first time takes a fifth of a second.
  if (language === 'typescript') stripTypeScriptTypes('');
  say({ type: 'ready' });
}

/** Whatever the process writes or ends by is told in its place among the events. */
function takeOver(say) {
  for (const name of ['stdout', 'stderr']) {
    const decoder = new TextDecoder();
    process[name].write = (chunk, encoding, callback) => {
      const text = typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true });
      for (let at = 0; at < text.length; at += 65_536) say({ type: name, text: text.slice(at, at + 65_536) });
      const done = typeof encoding === 'function' ? encoding : callback;
      if (done) process.nextTick(done);
      return true;
    };
  }
  // Node's own tells the inspector of each line, which keeps the last thousand.
  globalThis.console = new Console(process.stdout, process.stderr);
  // Node waits for inspectors before it ends.
  process.reallyExit = (code) => {
    say({ type: 'exit', code: code ?? 0 });
    process.kill(process.pid, 'SIGKILL');
  };
  for (const event of ['uncaughtException', 'unhandledRejection']) {
    process.on(event, (error) => {
      const { message, traceback } = exceptionOf(error);
      process.stderr.write(`Uncaught ${traceback || message}\n`);
    });
  }
}

class Cells {
  #say;
  #language;
  #session = connected();
  #halt = () => {};
  #halted = 0;

  constructor(say, language) {
    this.#say = say;
    this.#language = language;
  }

  /** True the second time: what is terminated before the cell's own code, or behind it, never comes to its end. */
  halt(cell) {
    const isLost = this.#halted === cell;
    this.#halted = cell;
    if (isLost) {
      this.#renew();
      this.#say(exceptionOf(interruption()));
    } else this.#halt(cell);
    return isLost;
  }

  /** False where it raised, or was interrupted. */
  async run(cell, code) {
    const halted = new Promise((resolve) => {
      this.#halt = (which) => which === cell && resolve({ isHalted: true });
    });
    try {
      const work = this.#evaluate(prepared(code, this.#language));
      const { result, exceptionDetails, isHalted } = await Promise.race([work, halted]);
      if (isHalted) {
        this.#renew();
        throw interruption();
      }
      const value = this.#held(exceptionDetails?.exception ?? result);
      if (exceptionDetails !== undefined) throw value;
      if (value !== undefined) await show(this.#say, value, true);
      return true;
    } catch (error) {
      this.#say(exceptionOf(error));
      return false;
    }
  }

  /** Where the cell's promise is collected one day, the inspector would call us in the middle of that, which ends Node. */
  #renew() {
    this.#session.disconnect();
    this.#session = connected();
  }

  #evaluate(expression) {
    const wish = { expression, replMode: true, awaitPromise: true, objectGroup: 'cell' };
    return new Promise((resolve) => {
      // What is terminated answers an error.
      this.#session.post('Runtime.evaluate', wish, (error, answer) => resolve(error ? { isHalted: true } : answer));
    });
  }

  /** The value itself: the inspector's protocol has only references to objects. */
  #held({ objectId, unserializableValue: text, value }) {
    if (objectId === undefined) {
      if (text === undefined) return value;
      return text.endsWith('n') ? BigInt(text.slice(0, -1)) : Number(text);
    }
    let held;
    globalThis[handover] = (given) => (held = given);
    this.#session.post('Runtime.callFunctionOn', {
      objectId,
      functionDeclaration: `function () { 'use strict'; globalThis[Symbol.for('squash.handover')](this); }`,
    });
    delete globalThis[handover];
    this.#session.post('Runtime.releaseObjectGroup', { objectGroup: 'cell' });
    return held;
  }
}

/** A cell's text as the console takes it. What can not be parsed is left to it: its error is the better one. */
function prepared(code, language) {
  let text = code;
  if (language === 'typescript') {
    try {
      text = stripTypeScriptTypes(code);
    } catch (error) {
      if (error.code !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') return code;
      text = stripTypeScriptTypes(code, { mode: 'transform' });
    }
  }
  if (!/\b(?:import|export|await)\b/.test(text)) return text;
  let tree;
  try {
    tree = parse(text, { ecmaVersion: 'latest', sourceType: 'module', allowAwaitOutsideFunction: true });
  } catch {
    return text;
  }
  const edits = [];
  visit(tree, (node, isTop) => {
    // Held until it settles: a cell that awaits what nobody else knows would be collected, see `runCell`.
    if (isTop && node.type === 'AwaitExpression') {
      edits.push([node.argument.start, node.argument.start, '$hold('], [node.argument.end, node.argument.end, ')']);
    }
    if (isTop && node.type === 'ForOfStatement' && node.await) {
      edits.push([node.right.start, node.right.start, '$holdEach('], [node.right.end, node.right.end, ')']);
    }
    if (node.type === 'ImportExpression') edits.push([node.start, node.start + 6, '$import']);
    if (node.type === 'ImportDeclaration') edits.push([node.start, node.end, asAwait(node)]);
    if (node.type === 'ExportNamedDeclaration' && node.declaration) edits.push([node.start, node.declaration.start, '']);
  });
  // From behind; what is put before a word comes after what is put in its place.
  for (const [start, end, put] of edits.sort((a, b) => b[0] - a[0] || b[1] - a[1])) text = text.slice(0, start) + put + text.slice(end);
  return text;
}

function visit(node, tell, isTop = true) {
  tell(node, isTop);
  const isInside = isTop && !/Function|^StaticBlock$|^PropertyDefinition$/.test(node.type);
  for (const value of Object.values(node)) {
    for (const child of Array.isArray(value) ? value : [value]) {
      if (child !== null && typeof child === 'object' && typeof child.type === 'string') visit(child, tell, isInside);
    }
  }
}

/** An import statement as the declaration that does the same in a console. */
function asAwait({ specifiers, source }) {
  const loaded = `await $hold($import(${source.raw}))`;
  const named = specifiers.flatMap(({ type, imported, local }) => {
    if (type === 'ImportNamespaceSpecifier') return [];
    const name = type === 'ImportDefaultSpecifier' ? 'default' : (imported.raw ?? imported.name);
    return [`${name}: ${local.name}`];
  });
  const all = specifiers.find(({ type }) => type === 'ImportNamespaceSpecifier');
  if (specifiers.length === 0) return `${loaded};`;
  if (all === undefined) return `const { ${named.join(', ')} } = ${loaded};`;
  return `const ${all.local.name} = ${loaded};${named.length === 0 ? '' : `const { ${named.join(', ')} } = ${all.local.name};`}`;
}

const handover = Symbol.for('squash.handover');
const display = Symbol.for('Jupyter.display');

const awaited = new Set();

function hold(value) {
  const promise = Promise.resolve(value);
  awaited.add(promise);
  const forget = () => awaited.delete(promise);
  promise.then(forget, forget);
  return promise;
}

async function* holdEach(values) {
  const iterator = values[Symbol.asyncIterator]?.() ?? values[Symbol.iterator]();
  try {
    for (let next = await hold(iterator.next()); !next.done; next = await hold(iterator.next())) yield await hold(next.value);
  } finally {
    await iterator.return?.();
  }
}

function setGlobals(say) {
  const require = createRequire(`${process.cwd()}/cell.js`);
  const from = (kind) => (strings, ...values) => shown({ [kind]: String.raw({ raw: strings.raw ?? [strings] }, ...values) });
  const shown = (data) => ({ [display]: () => data });
  const globals = {
    $hold: hold,
    $holdEach: holdEach,
    require,
    $import: (name, options) => {
      const isPath = /^\.{0,2}\//.test(name);
      if (isPath) return import(new URL(name, `file://${process.cwd()}/`).href, options);
      try {
        const path = require.resolve(name);
        return import(path.startsWith('/') ? `file://${path}` : path, options);
      } catch {
        return import(name, options);
      }
    },
    /** Shows a value, or data by their types: `display({ 'text/html': … }, { raw: true })`. */
    display: (value, { raw = false } = {}) => show(say, raw ? shown(value) : value, false),
    html: from('text/html'),
    markdown: from('text/markdown'),
    svg: from('image/svg+xml'),
    image: (bytes, kind = 'image/png') => shown({ [kind]: Buffer.from(bytes).toString('base64') }),
  };
  for (const [name, value] of Object.entries(globals)) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
  }
}

async function show(say, value, isMain) {
  let data;
  if (value !== null && typeof value === 'object' && typeof value[display] === 'function') data = await value[display]();
  data ??= { 'text/plain': inspect(value, { depth: 4, maxArrayLength: 1_000, maxStringLength: 1_048_576 }), ...asJson(value) };
  say({ type: 'result', is_main: isMain, data });
}

function asJson(value) {
  if (value === null || typeof value !== 'object' || !(Array.isArray(value) || isPlain(value))) return {};
  try {
    const text = JSON.stringify(value);
    return text.length <= 262_144 ? { 'application/json': JSON.parse(text) } : {};
  } catch {
    // Circles and large integers are no JSON.
    return {};
  }
}

function isPlain(value) {
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

function interruption() {
  const error = new Error('The cell was interrupted');
  error.name = 'Interrupted';
  error.stack = undefined;
  return error;
}

/** Without the lines of the stack that are the kernel's own. */
function exceptionOf(error) {
  const isError = error instanceof Error;
  const text = isError ? (error.stack ?? '') : '';
  const own = text.split('\n');
  const end = own.findIndex((line) => /\(node:inspector:|kernel\.mjs:/.test(line));
  const traceback = (end < 0 ? own : own.slice(0, end)).join('\n');
  return {
    type: 'exception',
    name: isError ? String(error.name) : 'Thrown',
    message: isError ? String(error.message) : inspect(error),
    traceback,
  };
}

if (isMainThread) runCells();
else hearBridge();
