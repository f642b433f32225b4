/** `squash rm`: destroys sandboxes. Several are tried even where one fails; the exit code tells. */
import type { SandboxInfo } from '@squash/contract/sandbox';
import { apiPath, sandboxesPath, sandboxPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes, usageFailure } from '../failure.ts';
import { confirm } from '../terminal/confirm.ts';
import { printFailure, printJson, printLine } from '../output/print.ts';
import { whileTold } from '../output/progress.ts';

export async function run(call: Call): Promise<number> {
  const ids = await chosen(call);
  const removed: string[] = [];
  let failed = false;
  for (const id of ids) {
    try {
      await whileTold(`removing ${id}`, call, () => call.client.delete(pathOf(call, id)));
      removed.push(id);
      if (!call.json) printLine(id);
    } catch (failure) {
      if (!(failure instanceof CliFailure) || failure.exitCode === exitCodes.unreachable) throw failure;
      if (failure.code === 'sandbox_not_found' && call.flags.isSet('force')) continue;
      printFailure(failure, call.json);
      failed = true;
    }
  }
  if (call.json) printJson({ removed });
  return failed ? exitCodes.failed : exitCodes.ok;
}

/** The original's addresses know nothing of it. */
function pathOf({ flags }: Call, id: string): string {
  return flags.isSet('set-aside') ? apiPath(['v1', 'sandboxes', id], { unsaved: 'aside' }) : sandboxPath(id);
}

async function chosen(call: Call): Promise<readonly string[]> {
  const all = call.flags.isSet('all');
  if (all === call.positionals.length > 0) throw usageFailure('name the sandboxes, or give --all');
  if (!all) return call.positionals;
  const sandboxes = await call.client.get<readonly SandboxInfo[]>(sandboxesPath);
  const ids = sandboxes.map((each) => each.id);
  if (ids.length > 0 && !call.flags.isSet('yes')) {
    confirm(
      `Destroy ${ids.length === 1 ? `the sandbox ${ids[0]}` : `all ${ids.length} sandboxes`} and their files?`,
    );
  }
  return ids;
}
