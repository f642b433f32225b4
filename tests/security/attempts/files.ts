/** Attempts at the host's files: paths, mounts, devices, what PID 1 and the kernel's own files tell. */
import { type Attempt, attemptsOf } from '../attempt.ts';

const path = attemptsOf('host-paths');
const mount = attemptsOf('mount');
const device = attemptsOf('devices');
const pid1 = attemptsOf('pid1');
const sysctl = attemptsOf('sysctl');
const cgroup = attemptsOf('cgroups');
const environment = attemptsOf('environment');
const overlay = attemptsOf('overlay');

const hostPaths: readonly Attempt[] = [
  path('path-absolute', (around) => `cat '${around.secretFile}'`),
  path('path-dotdot', (around) => `cat '/../../../../../..${around.secretFile}'`),
  path('path-dotdot-relative', (around) => `cd /; cat '../../../..${around.secretFile}'`),
  path('path-symlink', (around) => `ln -s '${around.secretFile}' link; cat link`),
  path('path-symlink-directory', (around) => `ln -s ../../../../../.. up; cat 'up${around.secretFile}'`),
  path('path-proc-1-root', (around) => `cat '/proc/1/root${around.secretFile}'`),
  path('path-proc-self-root', (around) => `cat '/proc/self/root/../..${around.secretFile}'`),
  path('path-proc-1-cwd', (around) => `cat '/proc/1/cwd/../../../../../..${around.secretFile}'`),
  path('path-proc-all-descriptors', (around) => `$A foreign-directories '${around.secretFile}'`),
  path('path-hard-link', (around) => `ln '/proc/1/root${around.secretFile}' hard && cat hard`, {
    kind: 'namespaces',
    optional: 'the working directory may be on another file system',
    run: (around) => `ln '${around.secretFile}' hard-$$ && cat hard-$$; rm -f hard-$$`,
  }),
  path('path-thread-root', (around) => `cat /proc/1/task/1/root'${around.secretFile}'`),
  path('path-chroot-escape', (around) => `$A chroot-escape '${around.secretFile}'`, { kind: 'chroot' }),
  path('path-leaked-descriptors', '$A leaked-descriptors', {
    kind: 'namespaces',
    run: () => '$A leaked-descriptors 9</',
  }),
  path('path-file-handle', '$A file-handle'),
  path('path-write-host', (around) => `$A open-write '${around.secretFile}'`),
  path('path-write-proc-root', (around) => `$A open-write '/proc/1/root${around.secretFile}'`),
  path(
    'path-mountinfo',
    (around) =>
      `if grep -F '${around.dataDir}' /proc/self/mountinfo /proc/1/mountinfo /proc/self/mounts; then exit 66; fi`,
    {
      kind: 'namespaces',
      run: (around) => `mount --bind '${around.dataDir}' /mnt; ${noticing(around.dataDir)}`,
    },
  ),
  path('path-mountinfo-repository', (around) => noticing(around.repository), {
    kind: 'namespaces',
    run: (around) => `mount --bind '${around.repository}' /mnt; ${noticing(around.repository)}`,
  }),
];

function noticing(text: string): string {
  return `if cat /proc/*/mountinfo | grep -F '${text}'; then exit 66; fi`;
}

const mounts: readonly Attempt[] = [
  ...['tmpfs', 'proc', 'sysfs', 'devpts', 'mqueue'].map((type) => mount(`mount-${type}`, `$A mount ${type}`)),
  mount('mount-cgroup2', '$A mount cgroup2'),
  mount('mount-overlay', '$A mount overlay lowerdir=/etc:/usr'),
  mount('mount-debugfs', '$A mount debugfs', { kind: 'namespaces', optional: 'a kernel without debugfs' }),
  mount('mount-binfmt', '$A mount binfmt_misc', { kind: 'namespaces', optional: 'a kernel without it' }),
  mount('mount-bind', '$A mount-bind /proc'),
  mount('mount-bind-host', '$A mount-bind /proc/1/root'),
  mount('mount-remount-proc', '$A remount /proc'),
  mount('mount-remount-proc-sys', '$A remount /proc/sys', {
    kind: 'namespaces',
    run: () => 'mount --bind /proc/sys /proc/sys; $A remount /proc/sys',
  }),
  mount('mount-remount-dev', '$A remount /dev'),
  mount('mount-propagation', '$A make-shared'),
  mount('mount-umount-root', '$A umount /'),
  mount('mount-umount-proc', '$A umount /proc'),
  mount('mount-umount-mask', '$A umount /proc/kcore', {
    kind: 'namespaces',
    run: () => 'mount --bind /dev/null /proc/kcore; $A umount /proc/kcore',
  }),
  mount('mount-pivot-root', '$A pivot-root'),
  ...['fsopen', 'open-tree', 'move-mount', 'fspick', 'fsconfig', 'fsmount', 'mount-setattr'].map((call) =>
    mount(`mount-api-${call}`, `$A ${call}`),
  ),
];

const fewDevices = { kind: 'namespaces', optional: 'a machine that itself may use few devices' } as const;

const devices: readonly Attempt[] = [
  device('device-mknod-mem', '$A device c 1 1'),
  device('device-mknod-kmsg', '$A device c 1 11'),
  device('device-mknod-loop', '$A device b 7 0'),
  device('device-mknod-disk', '$A device b 254 0', fewDevices),
  device('device-mknod-sda', '$A device b 8 0', fewDevices),
  device('device-mknod-fuse', '$A device c 10 229'),
  device('device-mknod-kvm', '$A device c 10 232'),
  device('device-mknod-tun', '$A device c 10 200'),
  // Any of the host's nodes that can be opened is one too many, so the control needs only one of them.
  device(
    'device-host-nodes',
    'for f in mem kmsg kvm port loop0 loop-control fuse sda vda nvme0n1 mapper/control net/tun rtc0 vhost-vsock uinput hpet cpu_dma_latency vfio/vfio; do $A open-read /dev/$f || exit; done',
  ),
  device('device-kcore', '$A open-read /proc/kcore', {
    kind: 'namespaces',
    optional: 'a kernel without /proc/kcore',
  }),
  device('device-kmsg-file', '$A open-read /proc/kmsg', {
    kind: 'namespaces',
    optional: 'a machine whose root lacks CAP_SYSLOG',
  }),
  // What counts the machine's key strokes, names its disks and keys, and lets everybody give the kernel work.
  device(
    'device-proc-files',
    'for f in interrupts softirqs key-users keys; do if grep -q . /proc/$f; then exit 66; fi; done; for d in acpi fs pressure; do if ls /proc/$d | grep -q .; then exit 66; fi; done',
  ),
  device('device-kernel-addresses', '$A kernel-addresses', {
    kind: 'namespaces',
    optional: 'kernel.kptr_restrict may be 2',
  }),
];

const firstProcess: readonly Attempt[] = [
  pid1(
    'pid1-environ',
    "$A read-files /proc/1/environ; if tr '\\0' '\\n' </proc/1/environ | grep -i squash; then exit 66; fi",
    {
      kind: 'namespaces',
      run: () => "SQUASH_X=1 cat /proc/self/environ | tr '\\0' '\\n' | grep -i squash && exit 66",
    },
  ),
  pid1('pid1-all-environ', 'cat /proc/*/environ /proc/*/task/*/environ 2>/dev/null; true', {
    kind: 'shared',
  }),
  pid1('pid1-cmdline', (around) => `if grep -F '${around.dataDir}' /proc/1/cmdline; then exit 66; fi`, {
    kind: 'shared',
    run: (around) =>
      `sh -c ': $1; cat /proc/$$/cmdline' sh '${around.dataDir}' | grep -qF '${around.dataDir}' && exit 66`,
  }),
  pid1(
    'pid1-maps',
    (around) =>
      `if cat /proc/*/maps /proc/*/smaps | grep -F -e '${around.dataDir}' -e '${around.repository}'; then exit 66; fi`,
    {
      kind: 'namespaces',
      run: () =>
        'if cat /proc/*/maps | grep -F "$A"; then exit 66; fi; cp "$(which sleep)" ./probe; ./probe 5 & until grep -q probe /proc/$!/maps; do :; done; kill $!; exit 66',
    },
  ),
  pid1(
    'pid1-exe-link',
    (around) =>
      `if readlink /proc/1/exe | grep -F -e '${around.repository}' -e '${around.dataDir}' -e squash-init/; then exit 66; fi`,
    {
      kind: 'none',
      because: 'the control would only show that readlink prints a path',
    },
  ),
  pid1('pid1-exe-overwrite', '$A overwrite-program 1'),
  pid1(
    'pid1-descriptors',
    (around) => `if ls -l /proc/1/fd | grep -F -e '${around.dataDir}' -e '/run/' -e .sock; then exit 66; fi`,
    {
      kind: 'namespaces',
      run: (around) =>
        `exec 9<'${around.dataDir}'; if ls -l /proc/self/fd /proc/$$/fd | grep -F '${around.dataDir}'; then exit 66; fi`,
    },
  ),
];

/** Each is opened for writing and not written. */
const settings: readonly Attempt[] = [
  ...[
    'kernel/core_pattern',
    'kernel/modprobe',
    'kernel/hotplug',
    'kernel/panic',
    'kernel/randomize_va_space',
    'vm/drop_caches',
    'vm/overcommit_memory',
    'vm/mmap_min_addr',
    'fs/suid_dumpable',
    'fs/protected_symlinks',
    'fs/file-max',
    'user/max_user_namespaces',
    'kernel/hostname',
    'kernel/yama/ptrace_scope',
    'kernel/unprivileged_bpf_disabled',
  ].map((name) =>
    sysctl(`sysctl-${name.replaceAll('/', '-')}`, `$A open-write /proc/sys/${name}`, {
      kind: 'namespaces',
      ...(/hotplug|yama|ns_last|bpf|modprobe|max_user/.test(name)
        ? { optional: 'not in every kernel, or not for this root' }
        : {}),
    }),
  ),
  sysctl('sysctl-kernel-ns_last_pid', '$A write-back /proc/sys/kernel/ns_last_pid', {
    kind: 'namespaces',
    optional: 'not in every kernel, or not for this root',
  }),
  sysctl('sysctl-sysrq', '$A open-write /proc/sysrq-trigger', {
    kind: 'namespaces',
    optional: 'not in every kernel',
  }),
  sysctl('sysctl-irq', '$A open-write /proc/irq/0/smp_affinity', {
    kind: 'namespaces',
    optional: 'interrupt 0 may be bare',
  }),
  sysctl('sysctl-uevent-helper', '$A open-write /sys/kernel/uevent_helper', {
    kind: 'namespaces',
    optional: 'not in every kernel',
  }),
  sysctl('sysctl-sys-write', '$A open-write /sys/kernel/mm/transparent_hugepage/enabled', {
    kind: 'namespaces',
    optional: 'not in every kernel',
  }),
  sysctl('sysctl-mtrr', '$A open-write /proc/mtrr', { kind: 'namespaces', optional: 'not in every kernel' }),
];

const groups: readonly Attempt[] = [
  cgroup(
    'cgroup-write',
    'for f in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do $A open-write "$f" || exit; done',
  ),
  cgroup(
    'cgroup-release-agent',
    'for f in /sys/fs/cgroup/release_agent /sys/fs/cgroup/*/release_agent; do $A open-write "$f" || exit; done',
    {
      kind: 'namespaces',
      optional: 'cgroup v1 only',
    },
  ),
  cgroup(
    'cgroup-limits',
    'for f in /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max /sys/fs/cgroup/cgroup.subtree_control /sys/fs/cgroup/pids/*/pids.max; do $A open-write "$f" || exit; done',
    {
      kind: 'namespaces',
      optional: 'a machine whose root group has none of these files',
    },
  ),
  cgroup('cgroup-mount-v1', '$A mount cgroup memory', { kind: 'namespaces', optional: 'cgroup v2 only' }),
  cgroup(
    'cgroup-names',
    (around) =>
      `if grep -F -e squash- -e '${around.dataDir}' /proc/self/cgroup /proc/1/cgroup; then exit 66; fi`,
    {
      kind: 'none',
      because: 'the control would only show that a group outside a cgroup namespace has its name',
    },
  ),
];

const surroundings: readonly Attempt[] = [
  // The one such name a command is meant to have says which certificates Node trusts.
  environment(
    'environment-own',
    'env; if env | grep -v ^NODE_EXTRA_CA_CERTS= | grep -iE "^(squash|npm|node)_"; then exit 66; fi',
    {
      kind: 'namespaces',
      run: () => 'env SQUASH_X=1 env | grep -iE "^(squash|npm|node)_" && exit 66',
    },
  ),
  environment('environment-secret', 'env; cat /proc/self/environ; set', {
    kind: 'shared',
    run: (around) => `cat /proc/${String(around.victimPid)}/environ`,
  }),
];

const forged: readonly Attempt[] = [
  overlay('overlay-trusted-xattr', '$A forge-overlay trusted.overlay.redirect /../../etc', {
    kind: 'namespaces',
    optional: 'a file system without trusted attributes',
  }),
  overlay('overlay-trusted-opaque', '$A forge-overlay trusted.overlay.opaque y', {
    kind: 'namespaces',
    optional: 'a file system without trusted attributes',
  }),
  overlay('overlay-lower-write', 'echo changed >>/etc/os-release; true', {
    kind: 'none',
    because: 'the neighbour sandbox is what shows it: it reads the same layer afterwards',
  }),
];

export const fileAttempts: readonly Attempt[] = [
  ...hostPaths,
  ...mounts,
  ...devices,
  ...firstProcess,
  ...settings,
  ...groups,
  ...surroundings,
  ...forged,
];
