/**
 * The layer builder as a program: `node images/main.ts recipes | build RECIPE [--fresh] | from-dir DIR NAME`.
 *
 * `squash quickstart` and `squash module build` run it. It writes one JSON object per line to stdout: progress,
 * then the result. It knows nothing of a daemon; who runs it sends the file there.
 */
import { rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { rfc3339 } from '@squash/base/clock';
import { Failure } from '@squash/base/failure';
import { makeScratchDirectory } from '@squash/base/scratch-directory';
import { manifestSuffix } from '@squash/contract/manifest-suffix';
import type { ModuleManifest } from '@squash/contract/module-manifest';
import { layerDigestSchema, moduleNameSchema } from '@squash/contract/ids';
import { buildLayer, builder } from './build-layer.ts';
import { packDirectory, sha256OfFile } from './pack.ts';
import { findRecipe, recipes } from './recipes.ts';

function print(line: Record<string, unknown>): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function build(name: string, fresh: boolean): Promise<void> {
  const recipe = findRecipe(name);
  if (recipe === undefined) {
    throw new Failure(
      'usage',
      `no recipe "${name}"; there are ${recipes.map((each) => each.name).join(', ')}`,
    );
  }
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
  const onProgress = (layer: string, text: string) => print({ type: 'progress', layer, text });
  const layer = await buildLayer(recipe, { fresh, onProgress, signal: stop.signal });
  print({ type: 'layer', path: layer.squashfs, bytes: statSync(layer.squashfs).size, manifest: layer.about });
}

/** Packs any directory. Its files become root's inside, unless their owners are to be kept. */
async function fromDirectory(words: readonly string[], keepOwners: boolean): Promise<void> {
  const [directory, name] = words;
  if (directory === undefined) throw new Failure('usage', 'from-dir takes DIRECTORY NAME');
  if (statSync(directory, { throwIfNoEntry: false })?.isDirectory() !== true)
    throw new Failure('usage', `"${directory}" is no directory`);
  // Whoever started us takes the file from there, and removes the directory.
  const scratch = makeScratchDirectory(tmpdir(), 'squash-layer', process.ppid);
  try {
    await packInto(scratch, { directory, name, keepOwners });
  } catch (error) {
    rmSync(scratch, { recursive: true, force: true });
    throw error;
  }
}

async function packInto(
  scratch: string,
  from: { readonly directory: string; readonly name: string | undefined; readonly keepOwners: boolean },
): Promise<void> {
  const { directory, name, keepOwners } = from;
  const output = join(scratch, 'layer.squashfs');
  await packDirectory(resolve(directory), output, { asRoot: !keepOwners });
  const manifest: ModuleManifest = {
    schema: 1,
    name: moduleNameSchema.parse(name),
    built_at: rfc3339(Date.now()),
    builder,
    base: null,
    packages: [],
    squashfs_sha256: layerDigestSchema.parse(await sha256OfFile(output)),
  };
  writeFileSync(`${output}${manifestSuffix}`, `${JSON.stringify(manifest, null, 2)}\n`);
  print({ type: 'layer', path: output, bytes: statSync(output).size, manifest });
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      fresh: { type: 'boolean', default: false },
      'keep-owners': { type: 'boolean', default: false },
    },
  });
  const [command, ...words] = positionals;
  if (command === 'recipes')
    for (const { name, summary } of recipes) print({ type: 'recipe', name, summary });
  else if (command === 'build' && words[0] !== undefined) await build(words[0], values.fresh);
  else if (command === 'from-dir') await fromDirectory(words, values['keep-owners']);
  else throw new Failure('usage', 'one of: recipes, build RECIPE, from-dir DIRECTORY NAME');
}

try {
  await main();
} catch (error) {
  print({ type: 'error', message: error instanceof Error ? error.message : String(error) });
  process.exitCode = 1;
}
