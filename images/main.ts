/**
 * The layer builder as a program: `node images/main.ts presets | build PRESET [--fresh] [--version V] | from-dir DIR NAME`.
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
import { layerDigestSchema, type ModuleName, moduleNameSchema } from '@squash/contract/ids';
import { buildLayer, builder } from './build-layer.ts';
import { packDirectory, sha256OfFile } from './pack.ts';
import type { Source } from './preset.ts';
import { allPresets, findPreset } from './preset-files.ts';
import type { ByteProgress } from './source-file.ts';

function print(line: Record<string, unknown>): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function build(
  word: string,
  options: { readonly fresh: boolean; readonly version?: string | undefined },
): Promise<void> {
  const found = findPreset(word);
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => stop.abort(new Failure('cancelled', 'the build was cancelled')));
  const pace = new Pace();
  const onProgress = (layer: string, text: string, bytes?: ByteProgress) => {
    if (bytes === undefined) print({ type: 'progress', layer, text });
    else if (pace.isDue(bytes))
      print({ type: 'progress', layer, text, bytes_done: bytes.done, bytes_total: bytes.total ?? null });
  };
  const building = buildLayer(found, { ...options, onProgress, signal: stop.signal });
  const layer = await building.catch((error: unknown) => {
    // What it broke off with says less than why.
    stop.signal.throwIfAborted();
    throw error;
  });
  print({ type: 'layer', path: layer.squashfs, bytes: statSync(layer.squashfs).size, manifest: layer.about });
}

/** Bytes come in pieces of some kilobytes: a line for some of them, and for the last. */
class Pace {
  #printed = 0;

  isDue({ done, total }: ByteProgress): boolean {
    const now = performance.now();
    if (done !== total && now - this.#printed < 200) return false;
    this.#printed = now;
    return true;
  }
}

function printPresets(): void {
  for (const { preset, path } of allPresets()) {
    const { name, aliases, prefix, module, sources, size, licence, summary } = preset;
    print({
      type: 'preset',
      name,
      aliases,
      module: `${prefix}-${module}`,
      source: [...new Set(sources.map(sourceWord))].join(', '),
      squashfs_mb: size.squashfs_mb,
      unpacked_mb: size.unpacked_mb,
      licence,
      summary,
      path,
    });
  }
}

function sourceWord(source: Source): string {
  return source.kind === 'archive' ? new URL(source.url).hostname : source.kind;
}

/** Packs any directory. Its files become root's inside, unless their owners are to be kept. */
async function fromDirectory(words: readonly string[], keepOwners: boolean): Promise<void> {
  const [directory, name] = words;
  if (directory === undefined) throw new Failure('usage', 'from-dir takes DIRECTORY NAME');
  if (statSync(directory, { throwIfNoEntry: false })?.isDirectory() !== true)
    throw new Failure('usage', `"${directory}" is no directory`);
  const parsed = moduleNameSchema.safeParse(name);
  if (!parsed.success)
    throw new Failure(
      'usage',
      `"${name ?? ''}": ${parsed.error.issues[0]?.message ?? 'no name of a module'}`,
    );
  // Whoever started us takes the file from there, and removes the directory.
  const scratch = makeScratchDirectory(tmpdir(), 'squash-layer', process.ppid);
  try {
    await packInto(scratch, { directory, name: parsed.data, keepOwners });
  } catch (error) {
    rmSync(scratch, { recursive: true, force: true });
    throw error;
  }
}

async function packInto(
  scratch: string,
  from: { readonly directory: string; readonly name: ModuleName; readonly keepOwners: boolean },
): Promise<void> {
  const { directory, name, keepOwners } = from;
  const output = join(scratch, 'layer.squashfs');
  await packDirectory(resolve(directory), output, { asRoot: !keepOwners });
  const manifest: ModuleManifest = {
    schema: 1,
    name,
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
      version: { type: 'string' },
      'keep-owners': { type: 'boolean', default: false },
    },
  });
  const [command, ...words] = positionals;
  if (command === 'presets') printPresets();
  else if (command === 'build' && words[0] !== undefined)
    await build(words[0], { fresh: values.fresh, version: values.version });
  else if (command === 'from-dir') await fromDirectory(words, values['keep-owners']);
  else throw new Failure('usage', 'one of: presets, build PRESET, from-dir DIRECTORY NAME');
}

try {
  await main();
} catch (error) {
  const isUsage = error instanceof Failure && error.code === 'usage';
  print({ type: 'error', message: sentence(error), usage: isUsage });
  process.exitCode = 1;
}

function sentence(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const isFull = 'code' in error && error.code === 'ENOSPC';
  // Two places are written to, and which of them is full nobody can tell from the system's word alone.
  return isFull ? `the disk is full: ${error.message}` : error.message;
}
