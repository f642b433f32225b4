/**
 * The floor of a codemode run: an engine as its own package offers it, without kernel, tools, limits or checks, behind one pipe. Each line on
 * standard input is one run: a fresh realm, `1 + 1`, a line back.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import vm from 'node:vm';
import type IsolatedVm from 'isolated-vm';
import type * as QuickJs from 'quickjs-wasi';

const require = createRequire(new URL('../../codemode/package.json', import.meta.url));

type Bare = () => unknown;

async function bareEngine(name: string): Promise<Bare | (() => Promise<unknown>)> {
  switch (name) {
    case 'isolated-vm': {
      const ivm = require('isolated-vm') as typeof IsolatedVm;
      return () => {
        const isolate = new ivm.Isolate({ memoryLimit: 128 });
        const result: unknown = isolate.createContextSync().evalSync('1 + 1');
        isolate.dispose();
        return result;
      };
    }
    case 'quickjs': {
      const { QuickJS } = (await import('quickjs-wasi')) as typeof QuickJs;
      const wasm = readFileSync(require.resolve('quickjs-wasi/quickjs.wasm'));
      const module = new (
        globalThis as unknown as { WebAssembly: { Module: new (bytes: Uint8Array) => never } }
      ).WebAssembly.Module(wasm);
      return async () => {
        const realm = await QuickJS.create({ wasm: module, memoryLimit: 128 * 1_048_576 });
        const result = realm.evalCode('1 + 1').toNumber();
        realm.dispose();
        return result;
      };
    }
    default:
      return () => vm.runInNewContext('1 + 1') as unknown;
  }
}

const run = await bareEngine(process.argv[2] ?? 'node-vm');
process.stdout.write('ready\n');
for await (const line of createInterface({ input: process.stdin })) {
  if (line === '') break;
  process.stdout.write(`${String(await run())}\n`);
}
