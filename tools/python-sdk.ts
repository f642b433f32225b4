/**
 * Writes what of the Python SDK is not written by hand: its types and table of operations from `contract/openapi.json`, and
 * the sync form of each module from the async one. With `--check` it writes nothing and fails where a file is not what it would write.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { operationsModule } from './python/operations.ts';
import { optionsModule } from './python/options.ts';
import { recordsModule } from './python/records.ts';
import type { Document } from './python/schema.ts';
import { syncForm } from './python/sync.ts';

const root = resolve(import.meta.dirname, '..');
const folder = 'python/squash';

/** The two ways to wait; what stands on them is the same. */
const byHand = ['__init__.py', 'wire.py'];

function wanted(): ReadonlyMap<string, string> {
  const text = readFileSync(join(root, 'contract/openapi.json'), 'utf8');
  const document = JSON.parse(text) as Document;
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
  const made = new Map([
    [`${folder}/types.py`, recordsModule(document)],
    [`${folder}/options.py`, optionsModule(document)],
    [`${folder}/_operations.py`, operationsModule(document, version)],
  ]);
  for (const name of readdirSync(join(root, folder, '_async')).sort()) {
    if (!name.endsWith('.py') || byHand.includes(name)) continue;
    const source = readFileSync(join(root, folder, '_async', name), 'utf8');
    made.set(`${folder}/_sync/${name}`, syncForm(source, name));
  }
  return made;
}

function current(file: string): string | undefined {
  try {
    return readFileSync(join(root, file), 'utf8');
  } catch {
    // Not written yet.
    return undefined;
  }
}

/** Sync forms whose async one is gone. */
function leftOver(made: ReadonlyMap<string, string>): readonly string[] {
  return readdirSync(join(root, folder, '_sync'))
    .filter((name) => name.endsWith('.py') && !byHand.includes(name))
    .map((name) => `${folder}/_sync/${name}`)
    .filter((file) => !made.has(file));
}

mkdirSync(join(root, folder, '_sync'), { recursive: true });
const made = wanted();
const stale = [...made].filter(([file, text]) => current(file) !== text);
const extra = leftOver(made);
if (process.argv.includes('--check')) {
  for (const file of [...stale.map(([name]) => name), ...extra]) {
    console.error(`${file} is not fresh: run node tools/python-sdk.ts`);
  }
  process.exitCode = stale.length + extra.length === 0 ? 0 : 1;
} else {
  for (const [file, text] of stale) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), text);
    console.log(`wrote ${file}`);
  }
  for (const file of extra) rmSync(join(root, file));
}
