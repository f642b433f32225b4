/** `squash box policy import`: settings of another system as a policy file. What can't be had is told by name, and nothing is printed. */
import { canonical } from '@squash/box/host-paths';
import { isPolicyProblem } from '@squash/box/policy-problem';
import type { Imported } from '@squash/box/srt/map';
import { homedir } from 'node:os';
import { ownUser } from '../box/daemon.ts';
import { readTextFile } from '../text-file.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import { jsonText, printLine, printNote, visible } from '../output/print.ts';

const defaults = { srt: '~/.srt-settings.json', deer: './deer.toml' } as const;

export async function importPolicy(call: Call, words: readonly string[]): Promise<number> {
  const [system = '', file, ...more] = words;
  if ((system !== 'srt' && system !== 'deer') || more.length > 0)
    throw usageFailure('box policy import takes srt or deer, and a file');
  const path = file ?? defaults[system].replace('~', homedir());
  const { policy, notes, refused } = await readable(system, path);
  for (const { field, text } of notes) printNote(`note: ${visible(`${field}: ${text}`)}`);
  const isPartial = call.flags.isSet('partial');
  if (refused.length > 0 && !isPartial)
    throw new CliFailure(
      'policy_refused',
      `${refused.map(({ field, text }) => visible(`${field}: ${text}`)).join('\n')}\nwithout these: --partial`,
      exitCodes.failed,
    );
  for (const { field, text } of refused) printNote(`left out: ${visible(`${field}: ${text}`)}`);
  printLine(jsonText(policy, 2));
  return exitCodes.ok;
}

/** @throws policy_refused, settings_unreadable, with the exit code of what failed */
async function readable(system: 'srt' | 'deer', path: string): Promise<Imported> {
  try {
    return await imported(system, path);
  } catch (failure) {
    if (!isPolicyProblem(failure)) throw failure;
    throw new CliFailure('policy_refused', failure.problems.map(visible).join('\n'), exitCodes.failed);
  }
}

async function imported(system: 'srt' | 'deer', path: string): Promise<Imported> {
  const text = readTextFile(path, 'settings_unreadable');
  const grounds = { home: canonical(homedir()) ?? homedir(), cwd: process.cwd(), ownHome: ownUser().home };
  const result = await read(system, { path, text, grounds });
  const { checkPolicy } = await import('@squash/box/policy/file-schema');
  // What is printed is a policy, or it is not printed.
  checkPolicy({ value: result.policy, lineOf: () => undefined }, path);
  return result;
}

async function read(
  system: 'srt' | 'deer',
  { path, text, grounds }: { readonly path: string; readonly text: string; readonly grounds: Grounds },
): Promise<Imported> {
  if (system === 'deer') {
    const { importDeer, parseDeer } = await import('@squash/box/deer/map');
    return importDeer(parseDeer(text, path), grounds);
  }
  const { parseSettings } = await import('@squash/box/srt/settings');
  const { importSrt } = await import('@squash/box/srt/map');
  return importSrt(parseSettings(text, path), grounds);
}

interface Grounds {
  readonly home: string;
  readonly cwd: string;
  readonly ownHome: string;
}
