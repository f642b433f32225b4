/**
 * `squash run`: a sandbox for one command, destroyed however the command ends, unless `--keep`. With `--id` the command runs in a
 * sandbox that is there: what a harness puts before each of its commands. With `--image` it is the image's own, where none is named.
 */
import type { Image } from '@squash/contract/image';
import type { ModuleAnswer } from '@squash/contract/module';
import { modulesPath, sandboxPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { createFlags } from '../command-table-sandbox.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import { isPolicyFile, underFiledRoot } from '../filed-policy.ts';
import { imageForCreate, imagePath } from '../images.ts';
import { printNote } from '../output/print.ts';
import { fittingLayers, readRunWords, type RunPlace, type RunWords, stemOf } from '../run-words.ts';
import { checkTaken, takeAlong, taken, type TakenFile } from '../taken-files.ts';
import { createSandbox, layersOf } from './create.ts';
import { noteWarnings } from '../output/warnings.ts';
import { createNative, sourceOf } from './create-native.ts';
import { execInSandbox } from './exec.ts';
import { readExecWish } from './exec-options.ts';

/** Where a command starts that is typed as it would be here. */
const homeDirectory = '/root';

export async function run(given: Call): Promise<number> {
  const call = given.flags.isSet('id') ? given : await underFiledRoot(given);
  const { flags } = call;
  const id = flags.text('id');
  if (id === '') throw usageFailure('--id is an empty word');
  const image = flags.text('image');
  if (image !== undefined && flags.isSet('task')) throw usageFailure('--image and --task exclude each other');
  const place = id !== undefined ? 'there' : image !== undefined ? 'image' : 'layers';
  const words = readRunWords(call.positionals, call.rest, place);
  const argv = image !== undefined && id === undefined ? await wordsWith(call, words, image) : words.argv;
  // Read first: a wrong option must not leave a sandbox behind.
  const wish = readExecWish({ ...call, rest: argv });
  const files: readonly TakenFile[] = [
    ...words.scripts.map((script) => ({ from: script, to: script })),
    ...flags.list('file').map(taken),
  ];
  await checkTaken(files);
  const isTyped = place === 'layers' && words.layers === undefined;
  const runIn = async (sandbox: string, home: string): Promise<number> => {
    const workdir = wish.cwd ?? home;
    await takeAlong(call, files, { id: sandbox, workdir });
    return await execInSandbox(call, sandbox, {
      ...wish,
      cwd: files.length > 0 || isTyped ? workdir : wish.cwd,
    });
  };
  if (id !== undefined) {
    refuseNewFlags(call);
    return await runIn(id, homeDirectory);
  }
  const made = await makeSandbox(call, words);
  try {
    return await runIn(made.id, made.home);
  } catch (cause) {
    if (!(cause instanceof CliFailure) || cause.exitCode !== exitCodes.notFound) throw cause;
    const remedy = await remedyFor(words, place);
    throw new CliFailure(cause.code, `${cause.message}${remedy}`, cause.exitCode);
  } finally {
    if (flags.isSet('keep')) printNote(`squash: kept the sandbox ${made.id}`);
    else await call.client.delete(sandboxPath(made.id));
  }
}

function refuseNewFlags({ flags }: Call): void {
  const names = [...createFlags.map(({ name }) => name), 'image', 'keep'];
  const given = names.find((name) => flags.isSet(name));
  if (given !== undefined) throw usageFailure(`--${given} is of a new sandbox, and with --id there is none`);
}

/** Has the image here. Where no command is named it is the image's own: its entrypoint, and its command behind it. */
async function wordsWith(
  { client, flags }: Call,
  { argv }: RunWords,
  image: string,
): Promise<readonly string[]> {
  await imageForCreate(client, image);
  if (argv.length > 0 || flags.isSet('shell')) return argv;
  const { entrypoint, cmd } = await client.get<Image>(imagePath(image));
  if (entrypoint.length + cmd.length > 0) return [...entrypoint, ...cmd];
  throw usageFailure(`image "${image}" names no command: give its words, or --shell TEXT`);
}

/** `home` is where a command starts that files are taken along for. */
async function makeSandbox(
  call: Call,
  words: RunWords,
): Promise<{ readonly id: string; readonly home: string }> {
  const hasFile = isPolicyFile(call.flags.text('policy'));
  if (hasFile && call.flags.isSet('task'))
    throw usageFailure('a policy file of boxes does not go with --task');
  const isNative = call.flags.isSet('image') || hasFile;
  if (!isNative) {
    const { id } = await createSandbox(call, undefined, await fitting(call, words));
    return { id, home: homeDirectory };
  }
  const above = call.flags.isSet('image')
    ? words.layers === undefined
      ? call.flags.list('layers')
      : [words.layers]
    : await fitting(call, words);
  const made = await createNative(call, sourceOf(call.flags, layersOf(above)));
  if (!call.json) noteWarnings(made.warnings);
  return { id: made.id, home: made.image?.workdir ?? homeDirectory };
}

async function fitting({ client, flags }: Call, { layers, argv }: RunWords): Promise<readonly string[]> {
  if (layers !== undefined) {
    if (flags.isSet('layers')) throw usageFailure(`the layers are given twice: "${layers}" and --layers`);
    return [layers];
  }
  if (flags.isSet('layers')) return flags.list('layers');
  const modules = await client.get<readonly ModuleAnswer[]>(modulesPath);
  return (
    fittingLayers(
      argv[0] ?? '',
      modules.map(({ name }) => name),
    ) ?? []
  );
}

/** Where there is a preset for what was not found. */
async function remedyFor({ layers, argv: [program = ''] }: RunWords, place: RunPlace): Promise<string> {
  if (layers !== undefined || place !== 'layers') return '';
  const { listLayerPresets } = await import('../layer-builder.ts');
  const preset = (await listLayerPresets()).find(({ name }) => name === stemOf(program));
  return preset === undefined ? '' : `; to have it in sandboxes: squash module build ${preset.name}`;
}
