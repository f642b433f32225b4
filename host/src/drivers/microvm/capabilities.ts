/**
 * What virtual machines need of this host, as `squash doctor` tells it: the module with QEMU and the guest's kernel, and `/dev/kvm`.
 *
 * Looked at each time somebody asks: the module is built while the daemon runs. Nobody else needs either, so neither makes anything weaker.
 */
import { closeSync, constants, existsSync, openSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { errorText } from '@squash/base/bug';
import { readIdMap } from '@squash/base/id-map';
import type { Capability } from '@squash/contract/capability';
import { AppError } from '@squash/contract/errors';
import { vmModule } from '@squash/contract/ids';
import { manifestSuffix } from '@squash/contract/manifest-suffix';
import { type ModuleManifest, moduleManifestSchema } from '@squash/contract/module-manifest';
import type { KvmFinding } from './acceleration.ts';
import type { FirecrackerProgram } from './firecracker-program.ts';

const kvmDevice = '/dev/kvm';
const tun = '/dev/net/tun';

/** What KVM is to QEMU; of Firecracker nothing is tried. */
export type VmmFound = { readonly program: FirecrackerProgram } | { readonly kvm: KvmFinding };

export function vmCapabilities(dataDir: string, found: VmmFound): readonly Capability[] {
  const module = moduleRow(join(dataDir, 'modules', `${vmModule}.squashfs`));
  return 'program' in found
    ? [
        module,
        firecrackerRow(found.program),
        openRow('Firecracker needs it; whether a guest starts on it is not probed'),
        tunRow(),
      ]
    : [module, qemuRow(found.kvm), kvmRow(found.kvm)];
}

function qemuRow(kvm: KvmFinding): Capability {
  const [state, choice] = qemuChoice(kvm);
  return {
    name: 'vmm',
    required: false,
    weaker: null,
    state,
    found: 'SQUASH_FIRECRACKER names no program',
    choice,
    remedy: state === 'ok' ? null : 'SQUASH_VM_ACCEL=auto',
  };
}

function qemuChoice(kvm: KvmFinding): readonly [Capability['state'], string] {
  switch (kvm.state) {
    case 'used':
      return ['ok', 'virtual machines run in QEMU, on KVM'];
    case 'off':
      return ['ok', 'virtual machines run in QEMU, emulated: SQUASH_VM_ACCEL is "tcg"'];
    case 'untried':
      return ['ok', 'virtual machines run in QEMU; a daemon that has the module tries whether on KVM'];
    case 'trying':
      return ['ok', 'virtual machines run in QEMU; whether on KVM is being tried: ask again in some seconds'];
    case 'fails':
      return kvm.isNeeded
        ? ['missing', `no virtual machines: SQUASH_VM_ACCEL is "kvm", and there is none (${kvm.why})`]
        : ['ok', `virtual machines run in QEMU, emulated: no guest runs on KVM (${kvm.why})`];
  }
}

function firecrackerRow(program: FirecrackerProgram): Capability {
  const row = { name: 'vmm', required: false, weaker: null } as const;
  try {
    const path = program.check();
    const { digest, isLikely } = program.about();
    if (!isLikely) throw new AppError('vm_unavailable', `"${path}" is no Firecracker, sha256 ${digest}`);
    return {
      ...row,
      state: 'ok',
      found: `Firecracker "${path}", sha256 ${digest}`,
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

function kvmRow(kvm: KvmFinding): Capability {
  const row = { name: 'kvm', required: false, weaker: null } as const;
  const slow = 'virtual machines are emulated, which is many times slower';
  switch (kvm.state) {
    case 'used':
      return { ...row, state: 'ok', found: 'a guest has answered on it', choice: 'used', remedy: null };
    case 'off':
      return openRow(`not used: ${slow}`);
    case 'untried':
      return openRow('used where a guest has answered on it');
    case 'trying':
      return openRow('a guest is being started on it: used where it answers within 10 s');
    case 'fails':
      return {
        ...row,
        state: 'missing',
        found: kvm.why,
        choice: kvm.isNeeded ? 'no virtual machines' : `not used: ${slow}`,
        remedy: remedyOf(kvm.why),
      };
  }
}

/** Of the two things that can be mended on this machine itself. */
function remedyOf(why: string): string | null {
  if (/permission denied|closed to/i.test(why))
    return 'echo \'KERNEL=="kvm", MODE="0666"\' | sudo tee /etc/udev/rules.d/65-kvm.rules && sudo udevadm trigger /dev/kvm';
  return existsSync(kvmDevice) ? null : 'sudo modprobe -a kvm_intel kvm_amd';
}

/** One that opens may start no guest all the same, as in some machines of clouds. */
function openRow(choice: string): Capability {
  const why = whyClosed(kvmDevice);
  const row = { name: 'kvm', required: false, weaker: null, choice } as const;
  return why === undefined
    ? { ...row, state: 'ok', found: `${kvmDevice} can be opened`, remedy: null }
    : { ...row, state: 'missing', found: why, remedy: remedyOf(why) };
}

/** Of Firecracker alone: QEMU's network is sockets. */
function tunRow(): Capability {
  const why = whyClosed(tun);
  const row = {
    name: 'tun',
    required: false,
    choice: 'the network of virtual machines in Firecracker',
  } as const;
  if (why === undefined)
    return { ...row, state: 'ok', found: `the VMM can open ${tun}`, weaker: null, remedy: null };
  return {
    ...row,
    state: 'missing',
    found: why,
    weaker: 'no virtual machine starts that has a network',
    remedy: existsSync(tun)
      ? `echo 'KERNEL=="tun", MODE="0666"' | sudo tee /etc/udev/rules.d/65-tun.rules && sudo udevadm trigger ${tun}`
      : 'sudo modprobe tun',
  };
}

/** To a VMM: what the daemon itself may open is not the same. */
function whyClosed(device: string): string | undefined {
  const found = statSync(device, { throwIfNoEntry: false });
  if (found === undefined) return `no ${device}`;
  const { isRoots, isSingle } = readIdMap();
  // Root's helper makes one for each VM.
  if (isRoots) return undefined;
  try {
    closeSync(openSync(device, constants.O_RDWR));
  } catch (error) {
    return `the daemon can't open ${device}: ${errorText(error)}`;
  }
  const isEverybodys = (found.mode & 0o006) === 0o006;
  return isSingle || isEverybodys ? undefined : `${device} is closed to the ids of sandboxes`;
}
