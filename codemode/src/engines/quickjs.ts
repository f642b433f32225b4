/**
 * QuickJS as WebAssembly: an interpreter within linear memory, so that not even a fault in the engine itself reaches the
 * process. The slowest at arithmetic, the only one whose runs can be saved and gone on with elsewhere.
 *
 * Each realm is a copy of the memory of one whose kernel was booted: by the build of the package, which stores it, or else by the first realm of
 * the process.
 */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { JSException, type JSValueHandle, QuickJS, type QuickJSOptions, type Snapshot } from 'quickjs-wasi';
import type { EngineLimits } from '../protocol/frames.ts';
import {
  codeFile,
  kernelFile,
  type DispatchMessage,
  type Engine,
  EngineError,
  type EngineHost,
  type Realm,
} from './engine.ts';

/** Name under which a restored realm finds the host again. */
const emitName = 'emit';

/** Engine and kernel before any code: what the code may use comes on top. */
const ownBytes = 4 * 1024 * 1024;

/**
 * The code's overflow is an error it can catch where this comes to an end before Node's own stack does, of which JSON's frames take the most:
 * twelve times what they take here. In linear memory there is 1 MB, and nothing below it: a built-in that needs more than is left ends its realm.
 */
const stackBytes = Math.min(1_000_448, Math.floor((stackKbOfNode() * 1024) / 12.5));

function stackKbOfNode(): number {
  const flag = process.execArgv.find((word) => word.startsWith('--stack-size='));
  return Number(flag?.slice('--stack-size='.length) ?? 984);
}

type WasmModule = QuickJSOptions['wasm'];

/** Node's types have no WebAssembly of their own, only those of a browser do. */
const { WebAssembly: wasmApi } = globalThis as unknown as {
  readonly WebAssembly: { readonly Module: new (bytes: Uint8Array) => WasmModule };
};

interface BootImage {
  readonly snapshot: Snapshot;
  readonly dispatch: number;
}

/** Of an image as it is stored: which kernel on which engine, which engine, and where the kernel's `dispatch` is in it. */
const digestBytes = 32;
const headBytes = 2 * digestBytes + 4;

/** Beside the built file alone: the kernel of sources may be another the next moment. */
const imagePath = join(import.meta.dirname, 'quickjs.image');

export async function createEngine(): Promise<Engine> {
  const bytes = readFileSync(createRequire(import.meta.url).resolve('quickjs-wasi/quickjs.wasm'));
  const wasm = new wasmApi.Module(bytes);
  const stored = storedImage(bytes);
  const kernel = stored === undefined ? (await import('../kernel/source.ts')).kernelSource : '';
  const digest = stored?.digest ?? digestOf(bytes, kernel);
  let image: BootImage | undefined = stored?.image;
  return {
    label: `quickjs-wasi sha256:${Buffer.from(digest).toString('hex').slice(0, 12)}`,
    async boot(host, limits) {
      image ??= await bootImage(wasm, kernel, limits);
      const clock = new CpuClock();
      const rejections = new Rejections();
      const vm = await QuickJS.restore(image.snapshot, optionsFor({ wasm, limits, clock, rejections }));
      return new QuickJsRealm({
        vm,
        host,
        clock,
        rejections,
        dispatch: vm.importHandle(image.dispatch),
        digest,
      });
    },
    async restore(host, limits, { bytes: saved, cpuMs }) {
      // A snapshot is raw memory of one engine: in another build every address in it would be wrong.
      if (Buffer.compare(digest, saved.subarray(0, digest.length)) !== 0)
        throw new EngineError({
          kind: 'crash',
          name: 'Error',
          message: 'the snapshot was made by another version of the engine',
        });
      const body = Buffer.from(saved.subarray(digest.length));
      const clock = new CpuClock();
      clock.budgetMs = cpuMs;
      const rejections = new Rejections();
      const snapshot = QuickJS.deserializeSnapshot(body.subarray(4));
      const vm = await QuickJS.restore(snapshot, optionsFor({ wasm, limits, clock, rejections }));
      return new QuickJsRealm({
        vm,
        host,
        clock,
        rejections,
        dispatch: vm.importHandle(body.readUInt32BE()),
        digest,
      });
    },
  };
}

/** Processor time of the run so far; looking at it costs a system call, so the engine asks rarely. */
class CpuClock {
  budgetMs = Number.POSITIVE_INFINITY;
  exceeded = false;
  readonly #began = process.cpuUsage();
  #asked = 0;

  isOver = (): boolean => {
    this.#asked += 1;
    if (this.#asked % 64 !== 0) return false;
    const used = process.cpuUsage(this.#began);
    this.exceeded = (used.user + used.system) / 1000 > this.budgetMs;
    return this.exceeded;
  };
}

/** Rejections without a listener. Most get one before the engine is idle again; only the others are told of. */
class Rejections {
  readonly #open = new Map<number, string>();

  note = (promise: JSValueHandle, reason: JSValueHandle, isHandled: boolean): void => {
    if (isHandled) this.#open.delete(promise.identity);
    else if (this.#open.size < rejectionsMax)
      this.#open.set(
        promise.identity,
        reason.isString ? reason.toString() : reason.isError ? ownMessage(reason) : 'a value',
      );
  };

  report(host: EngineHost): void {
    for (const text of this.#open.values()) host.unhandled(text);
    this.#open.clear();
  }
}

/** The worker tells the host of fewer. */
const rejectionsMax = 100;

interface RealmParts {
  readonly wasm: WasmModule;
  readonly limits: EngineLimits;
  readonly clock?: CpuClock;
  readonly rejections?: Rejections;
}

function optionsFor({ wasm, limits, clock, rejections }: RealmParts): QuickJSOptions {
  return {
    wasm,
    memoryLimit: limits.memoryMb * 1_048_576 + ownBytes,
    timezoneOffset: 0,
    ...(clock !== undefined && { interruptHandler: clock.isOver }),
    ...(rejections !== undefined && { onUnhandledRejection: rejections.note }),
  };
}

/** Without running anything of the code: its getters and its toString stay uncalled. */
function ownMessage(error: JSValueHandle): string {
  const found = error.getOwnPropertyDescriptor('message');
  return found?.value?.isString === true ? found.value.toString() : 'an error';
}

function digestOf(...parts: readonly (Uint8Array | string)[]): Uint8Array {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
}

/** What the build of the package writes to `imagePath`. */
export async function bootImageFile(kernel: string): Promise<Uint8Array> {
  const bytes = readFileSync(createRequire(import.meta.url).resolve('quickjs-wasi/quickjs.wasm'));
  const limits = { memoryMb: 64, runs: 1, countsCpu: false };
  const { snapshot, dispatch } = await bootImage(new wasmApi.Module(bytes), kernel, limits);
  const token = Buffer.alloc(4);
  token.writeUInt32BE(dispatch);
  return Buffer.concat([
    digestOf(bytes, kernel),
    digestOf(bytes),
    token,
    QuickJS.serializeSnapshot(snapshot),
  ]);
}

/** Undefined where there is none, or where it was made with another build of the engine: in that one every address in it would be wrong. */
function storedImage(
  wasm: Uint8Array,
): { readonly image: BootImage; readonly digest: Uint8Array } | undefined {
  if (!existsSync(imagePath)) return undefined;
  const file = readFileSync(imagePath);
  if (Buffer.compare(file.subarray(digestBytes, 2 * digestBytes), digestOf(wasm)) !== 0) return undefined;
  const snapshot = QuickJS.deserializeSnapshot(file.subarray(headBytes));
  return {
    image: { snapshot, dispatch: file.readUInt32BE(2 * digestBytes) },
    digest: file.subarray(0, digestBytes),
  };
}

async function bootImage(wasm: WasmModule, kernelSource: string, limits: EngineLimits): Promise<BootImage> {
  const vm = await QuickJS.create(optionsFor({ wasm, limits }));
  const boot = vm.evalCode(kernelSource, kernelFile);
  const emit = vm.newFunction(emitName, () => vm.undefined);
  const dispatch = vm.callFunction(boot, vm.undefined, emit);
  boot.dispose();
  vm.runGC();
  const image = { snapshot: vm.snapshot(), dispatch: vm.exportHandle(dispatch) };
  vm.dispose();
  return image;
}

interface StackOwner {
  readonly exports: { qjs_set_max_stack_size(bytes: number): void };
}

interface QuickJsParts {
  readonly vm: QuickJS;
  readonly host: EngineHost;
  readonly clock: CpuClock;
  readonly rejections: Rejections;
  readonly dispatch: JSValueHandle;
  readonly digest: Uint8Array;
}

class QuickJsRealm implements Realm {
  readonly #vm: QuickJS;
  readonly #clock: CpuClock;
  readonly #dispatch: JSValueHandle;
  readonly #digest: Uint8Array;
  readonly #afterJobs: () => void;

  constructor(parts: QuickJsParts) {
    this.#vm = parts.vm;
    this.#clock = parts.clock;
    this.#dispatch = parts.dispatch;
    this.#digest = parts.digest;
    const { vm, host } = parts;
    // Not by its option, which takes half of the stack at most.
    (vm as unknown as StackOwner).exports.qjs_set_max_stack_size(stackBytes);
    this.#afterJobs = () => parts.rejections.report(host);
    vm.registerHostCallback(emitName, (...args) => {
      const [operation, ...rest] = args.map(primitiveOf);
      host.emit(
        String(operation),
        rest[0],
        rest[1] as string | number | undefined,
        rest[2] as string | number | undefined,
      );
      return vm.undefined;
    });
  }

  dispatch(...message: DispatchMessage): void {
    this.#guarded(() => {
      this.#call(message.map((value) => this.#handleOf(value)));
    });
  }

  run(source: string, cpuMs: number): void {
    this.#clock.budgetMs = cpuMs;
    this.#guarded(() => {
      const code = this.#vm.evalCode(`(${source}\n)`, codeFile);
      this.#call([this.#vm.newString('run'), code]);
    });
  }

  /** Linear memory never shrinks: it tells of a heap that was full even when what filled it is gone. */
  isFull(): boolean {
    return this.#vm._getMemory().buffer.byteLength > this.#vm.getMemoryUsage().mallocLimit * 0.95;
  }

  snapshot(): Uint8Array {
    this.#vm.runGC();
    const token = Buffer.alloc(4);
    token.writeUInt32BE(this.#vm.exportHandle(this.#dispatch));
    return Buffer.concat([this.#digest, token, QuickJS.serializeSnapshot(this.#vm.snapshot())]);
  }

  dispose(): void {
    this.#vm.dispose();
  }

  #call(args: readonly JSValueHandle[]): void {
    this.#vm.callFunction(this.#dispatch, this.#vm.undefined, ...args).dispose();
    for (const arg of args) arg.dispose();
    this.#vm.executePendingJobs();
    this.#afterJobs();
  }

  #handleOf(value: string | number | boolean | undefined): JSValueHandle {
    if (value === undefined) return this.#vm.undefined;
    if (typeof value === 'string') return this.#vm.newString(value);
    return typeof value === 'number' ? this.#vm.newNumber(value) : value ? this.#vm.true : this.#vm.false;
  }

  #guarded(work: () => void): void {
    try {
      work();
    } catch (failure) {
      if (this.#clock.exceeded)
        throw new EngineError({ kind: 'cpu', name: 'Error', message: 'CPU time limit exceeded' });
      throw asEngineError(failure);
    }
  }
}

function primitiveOf(handle: JSValueHandle): string | number | boolean | undefined {
  if (handle.isString) return handle.toString();
  if (handle.isNumber) return handle.toNumber();
  return handle.isBool ? handle.toBoolean() : undefined;
}

function asEngineError(failure: unknown): EngineError {
  const name = failure instanceof Error ? failure.name : 'Error';
  const message = failure instanceof Error ? failure.message : String(failure);
  const kind = /out of memory/.test(message)
    ? 'memory'
    : failure instanceof JSException && name === 'SyntaxError'
      ? 'syntax'
      : 'crash';
  // The stack of WebAssembly itself ended: nothing the code could catch, and nothing that outlives the realm.
  const isStack = failure instanceof RangeError && /call stack/.test(message);
  return new EngineError({ kind: isStack ? 'runtime' : kind, name, message });
}
