/** `squash box trust`: whether this repository's policy file counts, and a person's word that it does. */
import { isatty } from 'node:tty';
import { currentPolicy, asPolicyFailure, boxPlace } from '../box/policy.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import { confirm } from '../terminal/confirm.ts';
import { printJson, printLine, printNote, visible, visibleLines } from '../output/print.ts';

export async function run(call: Call): Promise<number> {
  const [action = 'show'] = call.positionals;
  if (action !== 'show' && action !== 'add' && action !== 'revoke')
    throw usageFailure(`box trust takes show, add or revoke, not "${action}"`);
  if (action === 'revoke') return await revoke(call);
  const before = await currentPolicy();
  const { project } = before.loaded;
  if (project === undefined) throw new CliFailure('policy_not_found', 'this repository has no policy file');
  const { path, sha256, text } = project.file;
  const isShownFirst = action === 'add' && !call.json;
  if (isShownFirst) printLine(visibleLines(text));
  // Who has nobody before a terminal has read it elsewhere.
  if (isShownFirst && isatty(0) && isatty(1) && !call.flags.isSet('yes'))
    confirm(`Let ${visible(path)} open what it says, as it is now?`);
  if (action === 'add') await agree(path, sha256);
  const isTrusted = action === 'add' || project.isTrusted;
  // Some of it never counts.
  const { policy } = action === 'add' ? await currentPolicy() : before;
  const dropped = policy.dropped.filter(({ source }) => source.origin === 'project');
  if (call.json) {
    const left = dropped.map(({ rule, why }) => ({ rule, why }));
    printJson({ path, sha256, trusted: isTrusted, text, does_not_count: left });
  } else {
    if (!isShownFirst) printLine(visibleLines(text));
    printLine(`${visible(path)}: ${isTrusted ? 'trusted' : 'not trusted'} (SHA-256 ${sha256})`);
    for (const { rule, why } of dropped)
      printLine(`  does not count: ${visible(rule)}${isTrusted ? `: ${visible(why)}` : ''}`);
    if (!isTrusted) printNote('squash: to agree to it as it is now: squash box trust add');
  }
  return exitCodes.ok;
}

/** What was read for the answer is what is agreed to: a file that changed meanwhile has another hash. */
async function agree(path: string, sha256: string): Promise<void> {
  const { addTrust, trustFile } = await import('@squash/box/policy/trust');
  const { places } = boxPlace();
  await asPolicyFailure(
    async () => await addTrust(trustFile(places.state), { path, sha256, added: new Date().toISOString() }),
  );
}

/** Also where the file is gone, or is refused. */
async function revoke(call: Call): Promise<number> {
  const { revokeTrust, trustFile } = await import('@squash/box/policy/trust');
  const { projectPaths } = await import('@squash/box/policy-places');
  const { places } = boxPlace();
  const revoked: string[] = [];
  await asPolicyFailure(async () => {
    for (const path of projectPaths(places))
      if (await revokeTrust(trustFile(places.state), path)) revoked.push(path);
  });
  if (call.json) printJson({ revoked });
  else
    printLine(
      revoked.length === 0
        ? 'Nothing here was trusted.'
        : `No longer trusted: ${visible(revoked.join(', '))}`,
    );
  return exitCodes.ok;
}
