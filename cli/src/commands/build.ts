/** `squash build`: an image from a Dockerfile. Steps and their output go to standard error, the image's name to standard output. */
import { readFileSync } from 'node:fs';
import type { BuildEvent, BuildOptions } from '@squash/build';
import type { Image } from '@squash/sdk';
import type { Flags } from '../arguments.ts';
import type { Client } from '../client/client.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, fileProblem, usageFailure } from '../failure.ts';
import { imagePath, imagesPath } from '../images.ts';
import { printJson, printLine, printNote, printText, standardError, visible } from '../output/print.ts';
import { readCommon } from './create-common.ts';

/** Of the steps that builds keep, behind a build. */
const stepsKept = 400;

export async function run(call: Call): Promise<number> {
  const { flags, json } = call;
  if (flags.isSet('prune')) {
    if (call.positionals.length > 0) throw usageFailure('--prune takes no context: it builds nothing');
    return await prune(call);
  }
  const image = await build(call, { context: call.positionals[0], tag: flags.text('tag') });
  if (json) printJson(image);
  else printLine(visible(image.name));
  if (!flags.isSet('tag'))
    printNote('squash: without --tag it is kept among the steps of builds, and goes when those do');
  return exitCodes.ok;
}

async function checkName(client: Client, tag: string): Promise<void> {
  try {
    await client.get(imagePath(tag));
  } catch (error) {
    if (!(error instanceof CliFailure)) throw error;
    if (error.code === 'image_not_found') return;
    throw error.code === 'invalid_request' ? usageFailure(`--tag "${tag}" is ${error.message}`) : error;
  }
}

/** Of `module from-dockerfile` too. */
export async function build(
  { client, flags }: Call,
  { context = '.', tag }: { readonly context?: string | undefined; readonly tag?: string | undefined },
): Promise<Image> {
  // Whether there is a daemon, and whether that is a name, before anything is done.
  if (tag === undefined) await client.get(`${imagesPath}?limit=1`);
  else await checkName(client, tag);
  const library = await import('@squash/build');
  const stop = new AbortController();
  const onSignal = (): void => stop.abort(new CliFailure('aborted', 'the build was broken off', 130));
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal).once('SIGHUP', onSignal);
  const squash = new library.Squash(client.forSdk);
  const told = teller(flags.isSet('quiet'));
  try {
    const image = await library.buildImage(squash, {
      ...optionsOf(flags),
      context,
      tag,
      onEvent: told.tell,
      signal: stop.signal,
    });
    await library.pruneSteps(squash, stepsKept);
    return image;
  } catch (failure) {
    if (stop.signal.aborted) throw stop.signal.reason;
    told.fail();
    if (failure instanceof library.BuildProblem && failure.line !== undefined)
      throw new CliFailure(
        failure.code,
        `${flags.text('file') ?? 'Dockerfile'}:${failure.line}: ${failure.message}`,
      );
    if (failure instanceof library.SquashError) throw new CliFailure(failure.code, failure.message);
    throw failure;
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal).off('SIGHUP', onSignal);
    squash.close();
  }
}

async function prune({ client, json }: Call): Promise<number> {
  const { pruneSteps, Squash } = await import('@squash/build');
  const squash = new Squash(client.forSdk);
  try {
    const names = await pruneSteps(squash, 0);
    if (json) printJson({ removed: names });
    else printNote(`squash: removed ${names.length} steps`);
  } finally {
    squash.close();
  }
  return exitCodes.ok;
}

function optionsOf(flags: Flags): Omit<BuildOptions, 'context' | 'tag'> {
  const { allow_net: allow, policy, ...limits } = readCommon(flags, ['secret']);
  if (allow !== undefined && policy !== undefined)
    throw usageFailure('--allow-net and --policy exclude each other');
  const rules =
    policy ??
    (allow === undefined ? undefined : { allow: (allow as string[]).filter((host) => host !== 'none') });
  return {
    file: flags.text('file'),
    target: flags.text('target'),
    noCache: flags.isSet('no-cache'),
    args: Object.fromEntries(flags.list('build-arg').flatMap(argOf)),
    secrets: Object.fromEntries(flags.list('secret').map(secretOf)),
    sandbox: { ...limits, ...(rules !== undefined && { policy: rules }) } as NonNullable<
      BuildOptions['sandbox']
    >,
  };
}

function argOf(word: string): [string, string][] {
  const at = word.indexOf('=');
  const name = at < 0 ? word : word.slice(0, at);
  if (name === '') throw usageFailure(`--build-arg takes NAME=VALUE, not "${word}"`);
  const value = at < 0 ? process.env[name] : word.slice(at + 1);
  return value === undefined ? [] : [[name, value]];
}

function secretOf(word: string): [string, Buffer] {
  const options = new Map(
    word.split(',').map((each): [string, string] => {
      const at = each.indexOf('=');
      return [each.slice(0, Math.max(at, 0)), each.slice(at + 1)];
    }),
  );
  const id = options.get('id');
  const path = options.get('src') ?? options.get('source');
  const known = ['id', 'src', 'source', 'env', 'type'];
  if (id === undefined || id === '' || [...options.keys()].some((key) => !known.includes(key)))
    throw usageFailure(`--secret takes id=ID with src=FILE or env=NAME, not "${word}"`);
  if (path === undefined) {
    const value = process.env[options.get('env') ?? id];
    if (value === undefined)
      throw usageFailure(`--secret ${id}: there is no variable "${options.get('env') ?? id}"`);
    return [id, Buffer.from(value)];
  }
  try {
    return [id, readFileSync(path)];
  } catch (cause) {
    throw new CliFailure('file_unreadable', `can't read the secret "${path}": ${fileProblem(cause)}`);
  }
}

interface Told {
  readonly tell: (event: BuildEvent) => void;
  /** Tells what a quiet build has kept to itself. */
  readonly fail: () => void;
}

const keptBytesMax = 1_048_576;

/** A line for each step; what it writes as it comes, made harmless. */
function teller(isQuiet: boolean): Told {
  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  let kept = '';
  let isLineOpen = false;
  const say = (text: string): void => {
    if (isQuiet) kept = (kept + text).slice(-keptBytesMax);
    else printText(standardError, text);
  };
  const line = (text: string): void => {
    say(`${isLineOpen ? '\n' : ''}${text}\n`);
    isLineOpen = false;
  };
  const tell = (event: BuildEvent): void => {
    if (event.type === 'step') line(`[${event.step}/${event.steps}] ${visible(event.text)}`);
    if (event.type === 'note')
      line(`note: ${event.line === undefined ? '' : `line ${event.line}: `}${event.text}`);
    if (event.type === 'done')
      line(`[${event.step}] ${event.cached ? 'CACHED' : `done in ${(event.ms / 1000).toFixed(1)} s`}`);
    if (event.type !== 'output') return;
    const text = harmless(decoders[event.stream].decode(event.bytes, { stream: true }));
    if (text === '') return;
    say(text);
    isLineOpen = !text.endsWith('\n');
  };
  return { tell, fail: () => isQuiet && printText(standardError, kept) };
}

/** Lines stay lines; nothing else moves the reader's cursor. */
function harmless(text: string): string {
  const lines = text.replaceAll(/\r+\n?/g, '\n').split('\n');
  return lines.map((line) => line.split('\t').map(visible).join('\t')).join('\n');
}
