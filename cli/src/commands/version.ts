/** `squash version`: ours and, where one answers, the daemon's. That none runs is no failure. */
import cliPackage from '../../package.json' with { type: 'json' };
import type { Call } from '../command.ts';
import { CliFailure, exitCodes } from '../failure.ts';
import { printJson, printLine } from '../output/print.ts';
import { daemonInfo } from './daemon-info.ts';

export async function run(call: Call): Promise<number> {
  const client = cliPackage.version;
  const daemon = call.flags.isSet('offline') ? undefined : await daemonVersion(call);
  if (call.json) printJson({ client, daemon: daemon ?? null, node: process.version });
  else {
    printLine(`squash ${client}`);
    if (daemon !== undefined) printLine(`daemon ${daemon}`);
  }
  return exitCodes.ok;
}

async function daemonVersion(call: Call): Promise<string | undefined> {
  try {
    return (await daemonInfo(call.client))?.version;
  } catch (failure) {
    // A daemon that refuses us has a version too, but does not tell it.
    if (failure instanceof CliFailure) return undefined;
    throw failure;
  }
}
