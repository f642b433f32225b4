/**
 * `squash run`: a sandbox for one command, destroyed however the command ends, unless `--keep`. With `--id` the command runs in a
 * sandbox that is there: what a harness puts before each of its commands.
 */
import type { ModuleAnswer } from '@squash/contract/module';
import { modulesPath, sandboxPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { createFlags } from '../command-table-sandbox.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import { printNote } from '../output/print.ts';
import { fittingLayers, readRunWords, type RunWords, stemOf } from '../run-words.ts';
import { checkTaken, takeAlong, taken, type TakenFile } from '../taken-files.ts';
import { createSandbox } from './create.ts';
import { execInSandbox } from './exec.ts';
import { readExecWish } from './exec-options.ts';

/** Where a command starts that is typed as it would be here. */
const homeDirectory = '/root';

export async function run(call: Call): Promise<number> {
  const { flags } = call;
  const id = flags.text('id');
  if (id === '') throw usageFailure('--id is an empty word');
  const words = readRunWords(call.positionals, call.rest, id === undefined);
  // Read first: a wrong option must not leave a sandbox behind.
  const wish = readExecWish({ ...call, rest: words.argv });
  const files: readonly TakenFile[] = [
    ...words.scripts.map((script) => ({ from: script, to: script })),
    ...flags.list('file').map(taken),
  ];
  const workdir = wish.cwd ?? homeDirectory;
  const cwd = files.length > 0 || isAlone(words, id) ? workdir : wish.cwd;
  await checkTaken(files);
  if (id !== undefined) {
    refuseNewFlags(call);
    await takeAlong(call, files, { id, workdir });
    return await execInSandbox(call, id, { ...wish, cwd });
  }
  const made = await createSandbox(call, undefined, await layersOf(call, words));
  try {
    await takeAlong(call, files, { id: made.id, workdir });
    return await execInSandbox(call, made.id, { ...wish, cwd });
  } catch (cause) {
    if (!(cause instanceof CliFailure) || cause.exitCode !== exitCodes.notFound) throw cause;
    const remedy = await remedyFor(words);
    throw new CliFailure(cause.code, `${cause.message}${remedy}`, cause.exitCode);
  } finally {
    if (flags.isSet('keep')) printNote(`squash: kept the sandbox ${made.id}`);
    else await call.client.delete(sandboxPath(made.id));
  }
}

/** Typed without layers. */
const isAlone = ({ layers }: RunWords, id: string | undefined): boolean =>
  id === undefined && layers === undefined;

function refuseNewFlags({ flags }: Call): void {
  const names = [...createFlags.map(({ name }) => name), 'keep'];
  const given = names.find((name) => flags.isSet(name));
  if (given !== undefined) throw usageFailure(`--${given} is of a new sandbox, and with --id there is none`);
}

async function layersOf({ client, flags }: Call, { layers, argv }: RunWords): Promise<readonly string[]> {
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
async function remedyFor({ layers, argv: [program = ''] }: RunWords): Promise<string> {
  if (layers !== undefined) return '';
  const { listLayerPresets } = await import('../layer-builder.ts');
  const preset = (await listLayerPresets()).find(({ name }) => name === stemOf(program));
  return preset === undefined ? '' : `; to have it in sandboxes: squash module build ${preset.name}`;
}
