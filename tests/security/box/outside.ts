/** Attempts at processes, sockets, rights, the kernel and the network. */
import { attempt, type BoxAttempt, onlyRoot } from './attempt.ts';
import type { Ground } from './ground.ts';

const inNamespace = { kind: 'namespace' } as const;
const ofNobody = { kind: 'none', because: 'a user may not enter those of the machine' } as const;
const perhaps = { kind: 'namespace', optional: 'not with every kernel, nor for every user' } as const;
const perhapsHost = { kind: 'host', optional: 'not with every kernel, nor for every user' } as const;
const victim = (id: string, words: string): BoxAttempt =>
  attempt(id, ({ victimPid }) => `$A ${words} ${String(victimPid)}`);

const processes: readonly BoxAttempt[] = [
  victim('signal', 'signal'),
  victim('sigqueue', 'sigqueue'),
  victim('pidfd-signal', 'pidfd-signal'),
  attempt('trace', ({ victimPid }) => `$A trace ${String(victimPid)}`, {
    kind: 'host',
    optional: 'Yama may forbid it',
  }),
  attempt('read-memory', ({ victimPid }) => `$A vm-read ${String(victimPid)}`, {
    kind: 'host',
    optional: 'Yama may forbid it',
  }),
  attempt('open-memory', ({ victimPid }) => `$A proc-mem ${String(victimPid)}`, {
    kind: 'host',
    optional: 'Yama may forbid it',
  }),
  victim('limits', 'prlimit'),
  victim('slow-down', 'slow-down'),
  victim('pin', 'pin'),
  attempt('find-process', ({ victimWord }) => `$A find-process ${victimWord}`),
  attempt('environment-of-process', ({ victimPid }) => `cat /proc/${String(victimPid)}/environ`),
  attempt('environment-of-all', 'cat /proc/[0-9]*/environ 2>/dev/null; true'),
  attempt(
    'directory-of-process',
    ({ victimPid }) => `if ls /proc/${String(victimPid)}/cwd/; then exit 66; fi`,
  ),
  attempt(
    'find-daemon',
    `if cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -aE 'squash[.]mjs|host/src/[m]ain'; then exit 66; fi`,
    {
      kind: 'host',
      run: () =>
        `if cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -aE '[n]ode'; then exit 66; fi`,
    },
  ),
  attempt(
    'secrets-of-shell',
    `if env | grep -E 'of-the-shell|^SQUASH_|^LD_|^NODE_OPTIONS'; then exit 66; fi`,
  ),
  attempt('outside-terminal', '$A outside-terminal x', {
    kind: 'none',
    because: 'the driver has no terminal; a test of its own has one',
  }),
];

const answered = (address: string): string =>
  `curl -sS -m 3 -o /dev/null -w '%{http_code} %{size_download}' 'http://${address}/' | grep -E '^[2-3]' && exit 66; true`;

const sockets: readonly BoxAttempt[] = [
  attempt('abstract-socket', ({ abstractSocket }) => `$A connect-abstract ${abstractSocket}`),
  ...['agent', 'X0', 'bus', 'docker.sock'].map((name) =>
    attempt(`socket-${name.toLowerCase()}`, (ground) => `$A connect-path '${ground.sockets}/${name}'`),
  ),
  attempt('socket-agent-by-root', (ground) => `$A connect-path '/proc/1/root${ground.sockets}/agent'`, {
    kind: 'host',
    run: (ground) => `$A connect-path '/proc/self/root${ground.sockets}/agent'`,
  }),
  attempt('api-socket', ({ dataDir }) => `$A connect-path '${dataDir}/run/api.sock'`),
  attempt('launch-socket', ({ dataDir }) => `$A connect-path '${dataDir}/run/launch.sock'`, {
    kind: 'host',
    optional: 'the launcher may listen elsewhere',
  }),
  attempt(
    'find-sockets',
    ({ out }) => `find / -xdev -type s 2>/dev/null | grep -v '^${out}' | grep . && exit 66; true`,
    {
      kind: 'host',
      run: (ground) => `find '${ground.sockets}' -type s | grep . && exit 66`,
    },
  ),
  attempt('loopback', ({ port }) => `$A connect-tcp 127.0.0.1 ${String(port)}`),
  attempt('loopback-six', ({ port }) => `$A connect-tcp ::ffff:127.0.0.1 ${String(port)}`, {
    kind: 'host',
    optional: 'a machine without IPv6',
  }),
  attempt(
    'list-unix',
    ({ abstractSocket }) => `if grep -F ${abstractSocket} /proc/net/unix; then exit 66; fi`,
  ),
  attempt(
    'list-tcp',
    ({ port }) => `if grep -i ':${port.toString(16).padStart(4, '0')} ' /proc/net/tcp; then exit 66; fi`,
  ),
  attempt('system-v', ({ port }) => `$A shared-memory ${String(port)}`),
  attempt('web-of-host', ({ web }) => `curl -sS -m 5 'http://${web ?? 'no-address.invalid'}/'`, {
    kind: 'host',
    optional: 'a machine without an address but loopback, or without curl',
  }),
  attempt('metadata-address', answered('169.254.169.254'), perhapsHost),
  attempt('public-address', answered('1.1.1.1'), perhapsHost),
  // Each name has a made up address inside, behind which nobody is asked.
  attempt(
    'name-lookup',
    "getent ahostsv4 example.com | grep -v '^198[.]1[89][.]' | grep . && exit 66; true",
    perhapsHost,
  ),
  ...(
    [
      ['packet', '17 3 768'],
      ['raw', '2 3 1'],
      ['vsock', '40 1 0'],
      ['alg', '38 5 0'],
      ['netfilter', '16 3 12'],
      ['generic-netlink', '16 3 16'],
    ] as const
  ).map(([name, numbers]) => attempt(`family-${name}`, `$A socket ${numbers}`, perhaps)),
];

const namespaces: readonly BoxAttempt[] = [
  ...['user', 'mnt', 'net', 'pid', 'uts', 'ipc', 'cgroup', 'time'].map((kind) =>
    attempt(`unshare-${kind}`, `$A unshare ${kind}`, inNamespace),
  ),
  ...['user', 'mnt', 'net'].map((kind) => attempt(`clone-${kind}`, `$A clone ${kind}`, inNamespace)),
  ...['user', 'mnt'].map((kind) => attempt(`clone3-${kind}`, `$A clone3 ${kind}`, inNamespace)),
  ...['mnt', 'net', 'pid'].map((kind) => attempt(`setns-${kind}`, `$A setns ${kind}`, ofNobody)),
  ...['tmpfs', 'proc', 'devpts', 'mqueue'].map((type) =>
    attempt(`mount-${type}`, `$A mount ${type}`, perhaps),
  ),
  attempt('mount-overlay', '$A mount overlay lowerdir=/etc:/usr', perhaps),
  attempt('remount-usr', '$A remount /usr', perhaps),
  attempt('remount-etc', '$A remount /etc', perhaps),
  attempt('remount-reference', ({ reference }: Ground) => `$A remount '${reference}'`, perhaps),
  attempt('umount-etc', '$A umount /etc', perhaps),
  attempt('pivot-root', '$A pivot-root', perhaps),
  ...['fsopen', 'open-tree', 'move-mount', 'fspick', 'fsconfig', 'fsmount', 'mount-setattr'].map((call) =>
    attempt(`mount-api-${call}`, `$A ${call}`, perhaps),
  ),
];

const calls: readonly BoxAttempt[] = [
  ...['io_uring_setup', 'io_uring_enter', 'io_uring_register', 'io_setup'].map((name) =>
    attempt(name, `$A call ${name}`, perhapsHost),
  ),
  ...['add_key', 'request_key', 'keyctl-join', 'keyctl-describe'].map((name) =>
    attempt(name.replace('_', '-'), `$A call ${name}`, perhapsHost),
  ),
  ...[
    'init_module',
    'kexec_load',
    'syslog',
    'fanotify_init',
    'listmount',
    'statmount',
    'kcmp',
    'quotactl',
  ].map((name) => attempt(name, `$A call ${name}`, perhaps)),
  attempt('bpf', '$A bpf', perhaps),
  attempt('perf', '$A perf', perhaps),
  attempt('userfaultfd', '$A userfaultfd', perhapsHost),
  attempt('personality', '$A personality', perhapsHost),
  attempt('i386', '$A i386', perhapsHost),
  attempt('x32', '$A x32', perhapsHost),
  attempt('set-hostname', '$A set-hostname', {
    kind: 'none',
    because: 'a user may not, and root of a namespace would rename the machine’s',
  }),
  attempt('no-filter', '$A no-filter', perhapsHost),
  attempt('capabilities', '$A capabilities', perhaps),
];

const settings = [
  'kernel/core_pattern',
  'kernel/modprobe',
  'kernel/hostname',
  'vm/drop_caches',
  'kernel/yama/ptrace_scope',
  'net/ipv4/ip_forward',
];

const rights: readonly BoxAttempt[] = [
  attempt('new-privileges', '$A new-privileges'),
  attempt(
    'sudo',
    'for p in "sudo -n" "su -c" "pkexec"; do $p id -u 2>/dev/null </dev/null | grep -x 0 && exit 66; done; true',
    onlyRoot,
  ),
  attempt('map-ids', '$A map-ids', perhaps),
  ...settings.map((name) =>
    attempt(`setting-${name.replaceAll(/[/_]/g, '-')}`, `$A open-write /proc/sys/${name}`, onlyRoot),
  ),
  attempt('sysrq', '$A open-write /proc/sysrq-trigger', onlyRoot),
  attempt('uevent-helper', '$A open-write /sys/kernel/uevent_helper', onlyRoot),
  attempt(
    'cgroup',
    'if find /sys/fs/cgroup -type d 2>/dev/null | grep -q . && mkdir /sys/fs/cgroup/x; then exit 66; fi',
    onlyRoot,
  ),
  ...(
    [
      ['memory', 'c 1 1'],
      ['disk', 'b 254 0'],
      ['fuse', 'c 10 229'],
      ['tun', 'c 10 200'],
    ] as const
  ).map(([name, numbers]) => attempt(`node-${name}`, `$A device ${numbers}`, onlyRoot)),
  attempt(
    'nodes-of-host',
    'for f in mem kmsg kvm fuse sda vda net/tun vhost-vsock uinput tty1; do $A open-read /dev/$f || exit; done',
    perhapsHost,
  ),
  attempt(
    'proc-files',
    'for f in interrupts keys key-users; do if grep -q . /proc/$f; then exit 66; fi; done',
  ),
  attempt('fifo-of-host', ({ sockets: folder }) => `test -p '${folder}/fifo' && exit 66; true`),
];

export const outsideAttempts: readonly BoxAttempt[] = [
  ...processes,
  ...sockets,
  ...namespaces,
  ...calls,
  ...rights,
];
