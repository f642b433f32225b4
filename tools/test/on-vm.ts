/**
 * `on-vm`: files of other suites once more, with the same assertions, where a sandbox that asks for no backend is a microVM. A boot is
 * emulated where KVM is missing and takes seconds: a sample, unless all is wanted or files are named.
 */
import type { Machine } from './allowed-skips.ts';
import { prepareLayers } from './layers.ts';
import { runFiles } from './run-files.ts';
import { filesOf, type Suite } from './suites.ts';
import { emptyTally, type Tally } from './tally.ts';

/** Those that try much with few VMs. */
const sample = ['tests/e2e/api-jobs.test.ts'];

/** With `--long`: each has passed so. Others are run by naming them. */
export const whole: readonly string[] = [
  ...sample,
  'tests/e2e/access.test.ts',
  'tests/e2e/admission.test.ts',
  'tests/e2e/api.test.ts',
  'tests/e2e/api-access.test.ts',
  'tests/e2e/api-curl.test.ts',
  'tests/e2e/api-fuzz.test.ts',
  'tests/e2e/api-order.test.ts',
  'tests/e2e/api-readme.test.ts',
  'tests/e2e/api-restart.test.ts',
  'tests/e2e/approvals.test.ts',
  'tests/e2e/build.test.ts',
  'tests/e2e/build-to-bucket.test.ts',
  'tests/e2e/callers.test.ts',
  'tests/e2e/cli.test.ts',
  'tests/e2e/cli-events.test.ts',
  'tests/e2e/cli-exec.test.ts',
  'tests/e2e/cli-network.test.ts',
  'tests/e2e/cli-sandboxes.test.ts',
  'tests/e2e/cli-sync.test.ts',
  'tests/e2e/codemode-sandbox.test.ts',
  'tests/e2e/computesdk.test.ts',
  'tests/e2e/contexts.test.ts',
  'tests/e2e/contexts-interrupt.test.ts',
  'tests/e2e/debian-package.test.ts',
  'tests/e2e/documents.test.ts',
  'tests/e2e/egress.test.ts',
  'tests/e2e/events.test.ts',
  'tests/e2e/files.test.ts',
  'tests/e2e/files-cli.test.ts',
  'tests/e2e/group-changes.test.ts',
  'tests/e2e/group-global.test.ts',
  'tests/e2e/group-sessions.test.ts',
  'tests/e2e/group-warm.test.ts',
  'tests/e2e/groups.test.ts',
  'tests/e2e/groups-mcp.test.ts',
  'tests/e2e/groups-nanoclaw.test.ts',
  'tests/e2e/groups-nanoclaw-v2.test.ts',
  'tests/e2e/held-actions.test.ts',
  'tests/e2e/idle-exit.test.ts',
  'tests/e2e/image-commit.test.ts',
  'tests/e2e/image-push.test.ts',
  'tests/e2e/images.test.ts',
  'tests/e2e/keys.test.ts',
  'tests/e2e/mcp.test.ts',
  'tests/e2e/modules.test.ts',
  'tests/e2e/mount-levels.test.ts',
  'tests/e2e/network.test.ts',
  'tests/e2e/openapi-clients.test.ts',
  'tests/e2e/original.test.ts',
  'tests/e2e/ports.test.ts',
  'tests/e2e/ports-access.test.ts',
  'tests/e2e/ports-api.test.ts',
  'tests/e2e/ports-browser.test.ts',
  'tests/e2e/ports-tls.test.ts',
  'tests/e2e/presets.test.ts',
  'tests/e2e/processes.test.ts',
  'tests/e2e/processes-attach.test.ts',
  'tests/e2e/processes-exec.test.ts',
  'tests/e2e/processes-restart.test.ts',
  'tests/e2e/python-contexts.test.ts',
  'tests/e2e/python-sdk.test.ts',
  'tests/e2e/repl.test.ts',
  'tests/e2e/s3.test.ts',
  'tests/e2e/s3-ephemeral.test.ts',
  'tests/e2e/s3-snapshots.test.ts',
  'tests/e2e/sandboxes.test.ts',
  'tests/e2e/schedules.test.ts',
  'tests/e2e/sdk.test.ts',
  'tests/e2e/sdk-nouns.test.ts',
  'tests/e2e/sdk-runtimes.test.ts',
  'tests/e2e/secrets-file.test.ts',
  'tests/e2e/snapshots.test.ts',
  'tests/e2e/ssh.test.ts',
  'tests/e2e/ssh-gateway.test.ts',
  'tests/e2e/terminal.test.ts',
  'tests/e2e/usage.test.ts',
  'tests/e2e/volumes.test.ts',
  'tests/e2e/webhooks.test.ts',
  'tests/egress/approvals.test.ts',
  'tests/egress/bypass.test.ts',
  'tests/egress/bypass-controls.test.ts',
  'tests/egress/changes.test.ts',
  'tests/egress/clients.test.ts',
  'tests/egress/combinations.test.ts',
  'tests/egress/floods.test.ts',
  'tests/egress/own-secrets.test.ts',
  'tests/egress/presets.test.ts',
  'tests/egress/programs.test.ts',
  'tests/egress/trust.test.ts',
  'tests/egress/unread.test.ts',
  'tests/egress/upstreams.test.ts',
  'tests/faults/abandoned.test.ts',
  'tests/faults/crash.test.ts',
  'tests/faults/dead-pid-one.test.ts',
  'tests/faults/exec-delete.test.ts',
  'tests/faults/full-disk.test.ts',
  'tests/faults/group-kills.test.ts',
  'tests/faults/group-warm.test.ts',
  'tests/faults/hung-start.test.ts',
  'tests/faults/late-removal.test.ts',
  'tests/faults/log-reader-gone.test.ts',
  'tests/faults/lost-layer.test.ts',
  'tests/faults/lost-upper.test.ts',
  'tests/faults/mended.test.ts',
  'tests/faults/outdated.test.ts',
  'tests/faults/restart.test.ts',
  'tests/faults/volumes.test.ts',
  'tests/security/abuse.test.ts',
  'tests/security/attacks.test.ts',
  'tests/security/attacks-single-id.test.ts',
  'tests/security/file-operations.test.ts',
  'tests/security/file-operations-single-id.test.ts',
  'tests/security/group-beyond.test.ts',
  'tests/security/group-global.test.ts',
  'tests/security/group-mounts.test.ts',
  'tests/security/group-network.test.ts',
  'tests/security/group-sessions.test.ts',
  'tests/security/group-warm.test.ts',
  'tests/security/groups.test.ts',
  'tests/security/held-actions.test.ts',
  'tests/security/hijack.test.ts',
  'tests/security/host-directories.test.ts',
  'tests/security/host-processes.test.ts',
  'tests/security/host-users.test.ts',
  'tests/security/hostile-images.test.ts',
  'tests/security/mount-levels.test.ts',
  'tests/security/own-ids.test.ts',
  'tests/security/previews.test.ts',
  'tests/security/programs.test.ts',
];

/** Those that are not: what is said of them holds for the whole file. A new file is here or in `whole`: `main.test.ts`. */
export const besides: readonly { readonly why: string; readonly files: readonly string[] }[] = [
  {
    why: 'makes no sandbox',
    files: [
      'tests/e2e/api-local-users.test.ts',
      'tests/e2e/certificate.test.ts',
      'tests/e2e/cli-documents.test.ts',
      'tests/e2e/cli-mounts.test.ts',
      'tests/e2e/cli-older-daemon.test.ts',
      'tests/e2e/crowd.test.ts',
      'tests/e2e/first-start.test.ts',
      'tests/e2e/images-hostile.test.ts',
      'tests/e2e/sdk-liars.test.ts',
      'tests/faults/detach.test.ts',
      'tests/security/compromised-daemon.test.ts',
      'tests/security/dot-env.test.ts',
      'tests/security/own-files.test.ts',
    ],
  },
  {
    why: 'boxes and other sandboxes of `from.host`, which are no VMs',
    files: [
      'tests/e2e/box-caches.test.ts',
      'tests/e2e/box-devices.test.ts',
      'tests/e2e/box-doctor.test.ts',
      'tests/e2e/box-git.test.ts',
      'tests/e2e/box-learn.test.ts',
      'tests/e2e/box-nesting.test.ts',
      'tests/e2e/box-policy.test.ts',
      'tests/e2e/box-ports.test.ts',
      'tests/e2e/box-programs.test.ts',
      'tests/e2e/box-protected.test.ts',
      'tests/e2e/box-questions.test.ts',
      'tests/e2e/box-seed.test.ts',
      'tests/e2e/box-sockets.test.ts',
      'tests/e2e/box-standby.test.ts',
      'tests/e2e/box.test.ts',
      'tests/e2e/host-root.test.ts',
      'tests/e2e/srt-module.test.ts',
      'tests/e2e/srt.test.ts',
      'tests/security/box-attacks.test.ts',
      'tests/security/box-elsewhere.test.ts',
      'tests/security/box-git.test.ts',
      'tests/security/box-huge.test.ts',
      'tests/security/box-kills.test.ts',
      'tests/security/box-nesting.test.ts',
      'tests/security/box-outside.test.ts',
      'tests/security/box-races.test.ts',
      'tests/security/box-repository.test.ts',
    ],
  },
  {
    why: 'about microVMs, and says itself what is one',
    files: [
      'tests/e2e/firecracker.test.ts',
      'tests/e2e/firecracker-memory.test.ts',
      'tests/e2e/microvm-fork.test.ts',
      'tests/e2e/microvm-kvm.test.ts',
      'tests/e2e/microvm-limits.test.ts',
      'tests/e2e/microvm-memory.test.ts',
      'tests/e2e/microvm-mounts.test.ts',
      'tests/e2e/microvm-snapshot.test.ts',
      'tests/e2e/microvm-stopped.test.ts',
      'tests/e2e/microvm-thrash.test.ts',
      'tests/e2e/microvm.test.ts',
      'tests/e2e/vm-module.test.ts',
      'tests/faults/microvm-full-disk.test.ts',
      'tests/faults/microvm-kills.test.ts',
      'tests/faults/microvm-restore.test.ts',
      'tests/faults/microvm.test.ts',
      'tests/security/microvm-attacks.test.ts',
      'tests/security/microvm-control.test.ts',
      'tests/security/microvm-own-kernel.test.ts',
      'tests/security/tap.test.ts',
    ],
  },
  {
    why: 'asks the launcher or the kernel for its sandboxes, and no daemon',
    files: [
      'tests/security/controls.test.ts',
      'tests/security/file-controls.test.ts',
      'tests/security/upper-evasion.test.ts',
    ],
  },
  {
    why: 'about what sandboxes share that have the host’s kernel: its counts, device nodes, freezer',
    files: [
      'tests/faults/stuck-pause.test.ts',
      'tests/security/counted.test.ts',
      'tests/security/devices.test.ts',
    ],
  },
  {
    why: 'about the directories and images that uppers are without a guest’s disk, and snapshots of their changes',
    files: [
      'tests/e2e/snapshots-share.test.ts',
      'tests/faults/overcommitted-disk.test.ts',
      'tests/faults/reserve.test.ts',
      'tests/faults/upper-errors.test.ts',
    ],
  },
  {
    why: 'shows walls that a microVM does not need, on sandboxes that are none',
    files: ['tests/e2e/cli-demo.test.ts'],
  },
  {
    why: 'an earlier release, which has no VMs, begins',
    files: ['tests/faults/upgrade.test.ts'],
  },
  {
    why: 'starts its daemon as a reader or the benchmark does, with an environment of its own',
    files: ['tests/e2e/bench.test.ts', 'tests/e2e/readme.test.ts'],
  },
];

export const filesOnVms = 'tests/{e2e,egress,security,faults}/*.test.ts';

const minute = 60_000;

const onVm: Suite = {
  name: 'on-vm',
  patterns: [filesOnVms],
  filesAtOnce: 2,
  fileMsMax: 10 * minute,
  fileMsMaxLong: 60 * minute,
};

export interface OnVmOptions {
  readonly isLong: boolean;
  /** Each file that the patterns name. */
  readonly isNamed: boolean;
  readonly patterns: readonly string[];
}

export async function runOnVms({ isLong, isNamed, patterns }: OnVmOptions, machine: Machine): Promise<Tally> {
  const wanted = isNamed ? undefined : isLong ? whole : sample;
  const files = filesOf(onVm, patterns).filter((file) => wanted?.includes(file) ?? true);
  if (files.length === 0) return emptyTally;
  await prepareLayers(files, ['vmModule']);
  process.env['TEST_BACKEND'] = 'vm';
  process.env['TEST_PATIENCE'] = '5';
  try {
    return await runFiles(onVm, files, { ...machine, isOnVms: true });
  } finally {
    delete process.env['TEST_BACKEND'];
    delete process.env['TEST_PATIENCE'];
  }
}
