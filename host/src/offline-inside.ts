/**
 * The inside half of `offline.ts`: in the daemon's namespaces, as the owner of the data, with the launcher in reach.
 *
 * Words: the verb, the data directory, the run directory, `end` where the launcher was started for this call only, and where Firecracker is
 * the VMM its program, or an empty one.
 */
import type { Capability } from '@squash/contract/capability';
import { AppError } from '@squash/contract/errors';
import { systemClock } from '@squash/base/clock';
import { SocketDirectory } from '@squash/base/socket-directory';
import { vmCapabilities } from './drivers/microvm/capabilities.ts';
import { FirecrackerProgram } from './drivers/microvm/firecracker-program.ts';
import { settleGuest } from './drivers/microvm/guest-settle.ts';
import { endLauncher } from './egress/end-launcher.ts';
import { probeHost } from './launch/host-probe.ts';
import { ConnectionOwners } from './http/connection-owner.ts';
import { LaunchClient } from './launch/launch-client.ts';
import { lockDataDirectory } from './store/data-lock.ts';
import { repairState } from './store/repair.ts';

interface Words {
  readonly verb: string;
  readonly dataDir: string;
  readonly runDir: string;
  readonly vmm: string | undefined;
}

async function answer({ verb, dataDir, runDir, vmm }: Words, launcher: LaunchClient): Promise<unknown> {
  if (verb === 'probe')
    return {
      host: [
        ...(await probeHost(launcher)),
        await ownerRow(),
        ...vmCapabilities(
          dataDir,
          vmm === undefined
            ? { kvm: { state: 'untried' } }
            : { program: new FirecrackerProgram(dataDir, vmm === '' ? undefined : vmm) },
        ),
      ],
    };
  using _lock = lockDataDirectory(dataDir);
  if (verb === 'repair') return repaired(await repairState(dataDir, systemClock.wallMs()));
  if (verb === 'stop') return await endAll(launcher, runDir);
  throw new AppError('invalid_request', `There is no offline verb "${verb}"`);
}

/** As a daemon without a setting would find it. */
async function ownerRow(): Promise<Capability> {
  return await new ConnectionOwners(process.env).capability(true);
}

function repaired(report: Awaited<ReturnType<typeof repairState>>): unknown {
  return {
    sandboxes: report.sandboxes.length,
    execs: report.execs,
    kept: report.keptAside ?? null,
    problems: report.problems,
  };
}

async function endAll(launcher: LaunchClient, runDir: string): Promise<unknown> {
  const all = await launcher.list();
  using sockets = new SocketDirectory(runDir);
  await Promise.all(
    all
      .filter(({ vmm }) => vmm)
      .map(({ name, instance }) =>
        settleGuest(
          (signal) => sockets.connect(`g/${instance}.sock`, signal),
          () => launcher.thaw(name),
        ),
      ),
  );
  await endLauncher(launcher, runDir);
  return { ended: all.length };
}

/** The program. */
export async function start(): Promise<void> {
  const [, , verb = '', dataDir = '', runDir = '', after, vmm] = process.argv;
  try {
    using launcher = new LaunchClient(runDir);
    try {
      const answered = await answer({ verb, dataDir, runDir, vmm }, launcher);
      process.stdout.write(`${JSON.stringify(answered)}\n`);
    } finally {
      if (after === 'end' && verb !== 'stop') await launcher.shutdown();
    }
  } catch (error) {
    const code = error instanceof AppError ? error.code : 'internal';
    const message = error instanceof Error ? error.message : String(error);
    process.stdout.write(`${JSON.stringify({ error: { code, message } })}\n`);
    process.exitCode = 1;
  }
}

if (import.meta.main) await start();
