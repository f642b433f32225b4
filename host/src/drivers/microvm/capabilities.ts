/**
 * What virtual machines need of this host, as `squash doctor` tells it: the module with QEMU and the guest's kernel, and `/dev/kvm`.
 *
 * Looked at each time somebody asks: the module is built while the daemon runs. Nobody else needs either, so neither makes anything weaker.
 */
import { closeSync, constants, existsSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { errorText } from '@squash/base/bug';
import type { Capability } from '@squash/contract/capability';
import { vmModule } from '@squash/contract/ids';
import { manifestSuffix } from '@squash/contract/manifest-suffix';
import { type ModuleManifest, moduleManifestSchema } from '@squash/contract/module-manifest';
import type { FirecrackerProgram } from './firecracker-program.ts';

/** @param program undefined: QEMU */
export function vmCapabilities(
  dataDir: string,
  program: FirecrackerProgram | undefined,
): readonly Capability[] {
  return [moduleRow(join(dataDir, 'modules', `${vmModule}.squashfs`)), vmmRow(program), kvmRow(program)];
}

function vmmRow(program: FirecrackerProgram | undefined): Capability {
  const row = { name: 'vmm', required: false, weaker: null } as const;
  if (program === undefined)
    return {
      ...row,
      state: 'ok',
      found: 'SQUASH_FIRECRACKER names no program',
      choice: 'virtual machines run in QEMU, emulated',
      remedy: null,
    };
  try {
    return {
      ...row,
      state: 'ok',
      found: `Firecracker "${program.check()}", sha256 ${program.digest()}`,
      choice: 'virtual machines run in it; its version is looked at when one starts',
      remedy: null,
    };
  } catch (error) {
    return {
      ...row,
      state: 'missing',
      found: errorText(error),
      choice: 'no virtual machines',
      remedy: 'SQUASH_FIRECRACKER=PATH',
    };
  }
}

function moduleRow(squashfs: string): Capability {
  const row = { name: 'vm_module', required: false, weaker: null } as const;
  if (!existsSync(squashfs))
    return {
      ...row,
      state: 'missing',
      found: `no module "${vmModule}"`,
      choice: 'no virtual machines',
      remedy: 'squash module build vmm',
    };
  const manifest = manifestOf(squashfs);
  const prefix = 'qemu-system-x86=';
  const qemu = manifest?.packages.find((each) => each.startsWith(prefix))?.slice(prefix.length);
  return {
    ...row,
    state: 'ok',
    found: `module "${vmModule}": Linux ${manifest?.provenance?.['version'] ?? 'unknown'}, QEMU ${qemu ?? 'unknown'}`,
    choice: 'virtual machines start from it',
    remedy: null,
  };
}

function manifestOf(squashfs: string): ModuleManifest | undefined {
  try {
    return moduleManifestSchema.parse(JSON.parse(readFileSync(`${squashfs}${manifestSuffix}`, 'utf8')));
  } catch {
    // A file that was put there without one. What is wrong with it the store says when it is used.
    return undefined;
  }
}

/** One that opens may start no guest all the same, as in some machines of clouds: nothing has been tried. */
function kvmRow(program: FirecrackerProgram | undefined): Capability {
  const row = { name: 'kvm', required: false, weaker: null } as const;
  const choice =
    program === undefined
      ? 'not used yet: virtual machines are emulated, which is many times slower'
      : 'Firecracker needs it; whether a guest starts on it is not probed';
  try {
    closeSync(openSync('/dev/kvm', constants.O_RDWR));
    return { ...row, state: 'ok', found: '/dev/kvm can be opened', choice, remedy: null };
  } catch (error) {
    const isThere = !(error instanceof Error && 'code' in error && error.code === 'ENOENT');
    return {
      ...row,
      state: 'missing',
      found: isThere ? `the daemon can't open /dev/kvm: ${errorText(error)}` : 'no /dev/kvm',
      choice,
      remedy: isThere ? 'sudo usermod -aG kvm USER, and log in again' : 'sudo modprobe -a kvm_intel kvm_amd',
    };
  }
}
