/** `squash policy set`: replaces what a sandbox may reach, by words or by a file. Open connections may end by it. */
import type { SandboxPolicy } from '@squash/contract/egress';
import type { Call } from '../command.ts';
import { usageFailure } from '../failure.ts';
import { readJsonFile } from '../json-file.ts';
import { policyPath, printChanged } from './policy-show.ts';

export async function run(call: Call): Promise<number> {
  const [id = ''] = call.positionals;
  const shown = await call.client.put<SandboxPolicy>(policyPath(id), policyOf(call));
  return printChanged(call, shown);
}

/** Nothing given is a mistake, not "everything public": that is asked for by `*`. */
function policyOf({ positionals, flags }: Call): unknown {
  const allow = positionals.slice(1);
  const file = flags.text('file');
  const hasWords = allow.length > 0 || ['deny', 'ask', 'dns'].some((name) => flags.isSet(name));
  if (file !== undefined) {
    if (hasWords)
      throw usageFailure('--file is the whole policy: give no destinations, --deny, --ask or --dns with it');
    return readJsonFile(file, 'policy');
  }
  if (!hasWords) throw usageFailure('name destinations, "none", "*" for everything public, or --file');
  return {
    ...(allow.length > 0 && { allow }),
    ...(flags.isSet('deny') && { deny: flags.list('deny') }),
    ...(flags.isSet('ask') && { ask: flags.list('ask') }),
    ...(flags.isSet('dns') && { dns: flags.text('dns') }),
  };
}
