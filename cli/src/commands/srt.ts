/**
 * `squash srt`: the command line of Anthropic's Sandbox Runtime, with its settings, its words and its exit codes, around a box. What
 * fails before the command runs exits with 1, as there.
 */
import { isThere } from '@squash/box/policy-places';
import { isFound } from '@squash/box/srt/kept';
import type { SrtSettings } from '@squash/box/srt/settings';
import { homedir } from 'node:os';
import { join } from 'node:path';
import cliPackage from '../../package.json' with { type: 'json' };
import { withBoxDaemon } from '../box/daemon.ts';
import { Interruption } from '../box/interruption.ts';
import { asPolicyFailure, policyAlone } from '../box/policy.ts';
import { noteMade } from '../box/made-names.ts';
import { ControlLines } from '../box/control-lines.ts';
import { readTextFile } from '../text-file.ts';
import { SrtSession } from '../box/srt-session.ts';
import { mappedHere, networkOf, type SrtWish, srtWish } from '../box/srt-wish.ts';
import type { Client } from '../client/client.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import { printFailure, printLine, printNote, visible } from '../output/print.ts';
import { createBox, runAttached } from './box-run.ts';
import { policyPath } from './policy-show.ts';

export async function run(call: Call): Promise<number> {
  if (call.flags.isSet('version')) {
    printLine(`squash ${cliPackage.version}`);
    return exitCodes.ok;
  }
  using interruption = new Interruption();
  try {
    const code = await runSettings(call, interruption);
    // SRT itself ends with 0 where it was asked to end.
    return interruption.isAsked && [130, 143].includes(code) ? exitCodes.ok : code;
  } catch (failure) {
    if (!(failure instanceof CliFailure)) throw failure;
    if (failure.code === 'aborted' && interruption.isAsked) return exitCodes.ok;
    if (failure.exitCode === exitCodes.brokenPipe || failure.exitCode === exitCodes.notFound) throw failure;
    printFailure(failure, false);
    return exitCodes.failed;
  }
}

async function runSettings(call: Call, interruption: Interruption): Promise<number> {
  const command = commandOf(call);
  const descriptor = call.flags.integer('control-fd', { min: 3, max: 1_048_576 });
  using control = descriptor === undefined ? undefined : new ControlLines(descriptor);
  const path = call.flags.text('session');
  using session = path === undefined ? undefined : await SrtSession.join(path);
  const settings = await readSettings(call.flags.text('settings'), session?.first.settings);
  const asks = session?.first.asks === true;
  const wished = await srtWish(settings, { argv: [session?.first.shell ?? 'bash', '-c', command], asks });
  const isDebug = call.flags.isSet('debug') || Boolean(process.env['SRT_DEBUG']);
  if (isDebug) tellNotes(wished);
  const { daemon, box } = await withBoxDaemon(call, 'start', async (found) => ({
    daemon: found,
    box: await createBox(found, wished.wish),
  }));
  if (isDebug) for (const { message } of box.warnings) printNote(`squash: note: ${visible(message)}`);
  const change = async (text: string): Promise<void> =>
    await takeRules(daemon.client, box.id, { text, asks });
  control?.begin(change);
  session?.begin(daemon.client, box.id, change);
  const afterwards = async (): Promise<void> => {
    await session?.tellRefused(daemon.client, box.id);
    await session?.flush();
  };
  try {
    const isWork = async (): Promise<boolean> => false;
    const attached = { daemon, box, wish: wished.wish, interruption, isWork, afterwards };
    return await runAttached({ ...call, json: false }, attached);
  } finally {
    tellMade(wished);
  }
}

/** @throws usage */
function commandOf({ flags, rest }: Call): string {
  const text = flags.text('command');
  if (text !== undefined && rest.length > 0)
    throw usageFailure('-c is the whole command: give no other words');
  if (text === undefined && rest.length === 0) throw usageFailure('No command specified');
  const [first = ''] = rest;
  if (['proxy', 'windows-install', 'windows-uninstall'].includes(first))
    throw usageFailure(`"srt ${first}" is not offered; a program of that name: squash srt -c ${first}`);
  return text ?? rest.map(quoted).join(' ');
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** @param given by the program that wrapped the command @throws policy_refused, settings_unreadable */
async function readSettings(named: string | undefined, given: unknown): Promise<SrtSettings> {
  const path = named ?? join(homedir(), '.srt-settings.json');
  const { defaultSettings, parseSettings } = await import('@squash/box/srt/settings');
  if (given !== undefined)
    return await asPolicyFailure(async () => parseSettings(JSON.stringify(given), 'the settings'));
  return await asPolicyFailure(async () =>
    named === undefined && !isThere(path)
      ? defaultSettings
      : parseSettings(readTextFile(path, 'settings_unreadable'), path),
  );
}

/** A new configuration: of a command that runs its network is replaced. One that can't be taken changes nothing. */
async function takeRules(
  client: Client,
  id: string,
  { text, asks }: { readonly text: string; readonly asks: boolean },
): Promise<void> {
  try {
    const { parseSettings } = await import('@squash/box/srt/settings');
    const settings = await asPolicyFailure(async () => parseSettings(text, 'the new settings'));
    const { policy } = await policyAlone(networkOf(await mappedHere(settings), asks));
    await client.put(policyPath(id), policy.net);
  } catch (failure) {
    if (!(failure instanceof CliFailure)) throw failure;
    printNote(`squash: the rules are as they were: ${visible(failure.message)}`);
  }
}

function tellNotes({ mapped }: SrtWish): void {
  for (const { field, text } of mapped.notes) printNote(`squash: note: ${visible(`${field}: ${text}`)}`);
}

/** What is not there can't be kept from being made: whoever runs git or an editor next should know. */
function tellMade({ absent }: SrtWish): void {
  for (const path of absent.filter(isFound)) noteMade('command', path);
}
