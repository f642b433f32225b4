/** `squash module build`: makes a layer from a preset or from a directory, and adds it as a module. */
import { lstatSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Call } from '../command.ts';
import { exitCodes, usageFailure } from '../failure.ts';
import { type BuiltLayer, buildLayer, type LayerPreset, listLayerPresets } from '../layer-builder.ts';
import { printJson, printNote, visible } from '../output/print.ts';
import { printTable } from '../output/table.ts';
import { showModule, uploadModule } from './module-upload.ts';

export async function run(call: Call): Promise<number> {
  const [preset, ...words] = call.positionals;
  if (preset === undefined || call.flags.isSet('list')) return await showPresets(call);
  const built = await build(call, preset, words);
  try {
    const name = call.flags.text('name') ?? built.manifest.name;
    const module = await uploadModule(call.client, built.path, {
      name,
      replace: call.flags.isSet('replace'),
      manifest: built.manifest,
    });
    showModule(call, module);
    return exitCodes.ok;
  } finally {
    // A preset's layer lies in the cache and stays; that of a directory was made for this call.
    if (preset === 'from-dir') rmSync(dirname(built.path), { recursive: true, force: true });
  }
}

function build(call: Call, preset: string, words: readonly string[]): Promise<BuiltLayer> {
  const note = (layer: string, text: string) => printNote(`${layer}: ${text}`);
  const version = call.flags.text('version');
  if (preset !== 'from-dir') {
    if (words.length > 0) throw usageFailure(`"${words[0]}" is one word too many`);
    const options = [
      ...(call.flags.isSet('fresh') ? ['--fresh'] : []),
      ...(version === undefined ? [] : [`--version=${version}`]),
    ];
    return buildLayer(['build', ...options, '--', preset], note);
  }
  if (version !== undefined) throw usageFailure('--version is of presets: a directory is as it is');
  const [directory, name] = words;
  if (directory === undefined || name === undefined || words.length > 2) {
    throw usageFailure('from-dir takes a directory and the name of the module: from-dir ./tools 300-tools');
  }
  noteHiding(directory);
  const owners = call.flags.isSet('keep-owners') ? ['--keep-owners'] : [];
  return buildLayer(['from-dir', ...owners, '--', directory, name], note);
}

/** What Debian's layers have as links into /usr. */
const mergedIntoUsr = ['bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32'];

/** A directory in the place of such a link hides all programs of the layers below, and no sandbox would start a shell. */
function noteHiding(directory: string): void {
  const hiding = mergedIntoUsr.filter((name) =>
    lstatSync(join(directory, name), { throwIfNoEntry: false })?.isDirectory(),
  );
  for (const name of hiding)
    printNote(
      `squash: warning: "${name}" of "${visible(directory)}" hides that of a base where it is a link, as in Debian's: put its files into "usr/${name}"`,
    );
}

async function showPresets(call: Call): Promise<number> {
  const presets = await listLayerPresets();
  if (call.json) printJson(presets);
  else
    printTable<LayerPreset>(
      [
        { title: 'PRESET', text: ({ name }) => name },
        { title: 'MODULE', text: ({ module }) => module },
        { title: 'SIZE', text: (each) => `${each.squashfs_mb} MB`, align: 'right' },
        { title: 'SOURCE', text: ({ source }) => source },
        {
          title: 'LICENCE',
          text: ({ licence }) => (licence.startsWith('as its packages') ? 'packages' : licence),
        },
        { title: 'WHAT', text: ({ summary }) => summary },
      ],
      presets,
    );
  return exitCodes.ok;
}
