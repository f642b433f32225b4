/**
 * Attempts of who is root of a user namespace of his own, inside a box that lets him make one: at what is mounted over something, at what is
 * read-only, at the box's limits. Each runs in such a namespace with mounts of its own; on the host it has the same and no box around it.
 */
import { attempt, type BoxAttempt, type Control, markOf } from './attempt.ts';
import type { Ground } from './ground.ts';

const inNamespace: Control = { kind: 'namespace' };
const ofBox = (because: string): Control => ({ kind: 'none', because });
const heldThere = ofBox('the kernel holds it on the host as well');
const perhaps: Control = { kind: 'namespace', optional: 'not with every kernel' };

/** What the box has closed by a mount, or by a name that its overlay does not show. */
const secretsAt = (root: string, { project, out, reference }: Ground): string =>
  [
    `${out}/closed/k`,
    `${out}/sub/.env`,
    `${reference}/closed/k`,
    `${reference}/denied`,
    `${project}/denied.txt`,
    `${project}/.env`,
    `${project}/keys/k`,
  ]
    .map((path) => `'${root}${path}'`)
    .join(' ');

const covers = ({ project, out, reference }: Ground): string =>
  [
    `${out}/closed`,
    `${out}/sub/.env`,
    `${reference}/closed`,
    `${reference}/denied`,
    `${project}/denied.txt`,
    project,
    reference,
    out,
  ]
    .map((path) => `'${path}'`)
    .join(' ');

/** On the host the attacker covers the same himself, with nothing that holds the covers in their places. */
const covered = ({ project, out, reference }: Ground): string =>
  [
    ...[`${out}/closed`, `${reference}/closed`, `${project}/keys`].map(
      (path) => `mount -t tmpfs none '${path}'`,
    ),
    ...[`${out}/sub/.env`, `${reference}/denied`, `${project}/denied.txt`, `${project}/.env`].map(
      (path) => `mount --bind /dev/null '${path}'`,
    ),
  ].join(' && ');

type ScriptOf = (ground: Ground) => string;

const opening = (id: string, script: ScriptOf, control?: Control): BoxAttempt => {
  const run: ScriptOf = (ground) => `${script(ground)}\ntrue`;
  const underCovers: Control = {
    kind: 'namespace',
    run: (ground) => `${covered(ground)} || exit 2\n${run(ground)}`,
  };
  return attempt(`nested-${id}`, run, control ?? underCovers);
};

const mounts: readonly BoxAttempt[] = [
  opening(
    'umount',
    (ground) =>
      `for p in ${covers(ground)}; do umount "$p" && exit 66; umount -l "$p" && exit 66; umount -f "$p"; done; cat ${secretsAt('', ground)}`,
  ),
  opening(
    'umount-private',
    (ground) =>
      `mount --make-rprivate /; for p in ${covers(ground)}; do umount -l "$p"; done; cat ${secretsAt('', ground)}`,
  ),
  opening(
    'move',
    (ground) =>
      `i=0; for p in ${covers(ground)}; do i=$((i+1)); mkdir m$i; touch f$i; mount --move "$p" m$i || mount --move "$p" f$i; done; cat ${secretsAt('', ground)}`,
  ),
  opening(
    'bind-of-parent',
    ({ out, reference, project }) =>
      `mkdir a b c; mount --bind '${out}' a; mount --bind '${reference}' b; mount --bind '${project}' c; cat a/closed/k a/sub/.env b/closed/k b/denied c/denied.txt c/.env`,
  ),
  opening('bind-of-inner-parent', ({ out }) => `mkdir a; mount --bind '${out}/sub' a; cat a/.env`),
  opening(
    'recursive-bind',
    ({ out, reference, project }) =>
      `mkdir a b c; mount --rbind '${out}' a; mount --rbind '${reference}' b; mount --rbind '${project}' c; for p in a/closed a/sub/.env b/closed b/denied c/denied.txt; do umount $p; umount -l $p; mount --move $p c; done; cat a/closed/k a/sub/.env b/closed/k b/denied c/denied.txt`,
  ),
  opening(
    'recursive-bind-of-root',
    (ground) =>
      `mkdir m; mount --rbind / m; mount --make-rprivate m; for p in ${covers(ground)}; do umount -l "$PWD/m$p"; done; cat ${secretsAt('m', ground)}`,
  ),
  opening(
    'renamed-under-cover',
    ({ out }) =>
      `cd '${out}'; unshare -m sh -c 'mv closed c; mv sub s; cat c/k s/.env; mv c closed; mv s sub'`,
    heldThere,
  ),
  opening(
    'overlay-of-parent',
    ({ out, reference }) =>
      `mkdir a b; mount -t overlay overlay -o 'lowerdir=${out}:/etc' a; mount -t overlay overlay -o 'lowerdir=${reference}:/etc' b; cat a/closed/k a/sub/.env b/closed/k b/denied`,
  ),
  opening(
    'overlay-of-copy',
    ({ project }) =>
      `mkdir a b u w; mount -t overlay overlay -o 'lowerdir=${project}:/etc' a; mount -t overlay overlay -o 'userxattr,lowerdir=${project},upperdir=u,workdir=w' b; cat a/.env a/keys/k a/denied.txt b/.env b/keys/k b/denied.txt`,
  ),
  opening(
    'overlay-redirect',
    ({ project }) =>
      `cd '${project}'; mkdir -p nr; setfattr -n user.overlay.redirect -v /keys nr; cd - >/dev/null; mkdir a; for o in userxattr userxattr,redirect_dir=on,metacopy=on redirect_dir=follow; do mount -t overlay overlay -o "$o,lowerdir=${project}:/etc" a && cat a/nr/k a/keys/k; umount a; done`,
  ),
  opening(
    'pivot-root',
    (ground) =>
      `mkdir m; mount --rbind / m; cd m && pivot_root . . && umount -l . && cd / && cat ${secretsAt('', ground)}`,
    heldThere,
  ),
  opening(
    'pivot-root-into-parent',
    (ground) =>
      `t=/old-$$$(printenv A); mount --rbind '${ground.out}' '${ground.out}'; cd '${ground.out}' && mkdir -p old-$$ && pivot_root . old-$$; said="$($t umount /closed; $t umount /sub/.env)"; for f in /closed/k /sub/.env; do read -r l <$f; echo "$l"; done`,
  ),
  opening('root-detached', (ground) => `umount -l /; umount -R /; cat ${secretsAt('', ground)}`, heldThere),
  opening(
    'deeper',
    (ground) =>
      `unshare --user --map-root-user --mount sh -c 'for p in ${covers(ground).replaceAll("'", '"')}; do umount -l "$p"; done'; cat ${secretsAt('', ground)}`,
    heldThere,
  ),
  opening(
    'chroot',
    (ground) =>
      `mkdir m; mount --rbind / m; chroot m sh -c 'cat ${secretsAt('/proc/1/root', ground).replaceAll("'", '')}'`,
    heldThere,
  ),
  ...['1', '2', '$PPID', 'self'].map((process) =>
    opening(
      `root-of-${process === '$PPID' ? 'parent' : process}`,
      (ground) =>
        `cat ${secretsAt(`/proc/${process}/root`, ground).replaceAll("'", '"')} ${secretsAt(`/proc/${process}/cwd/../../../../../..`, ground).replaceAll("'", '"')}`,
      heldThere,
    ),
  ),
  opening(
    'enter-others',
    () =>
      'for p in /proc/[0-9]*; do nsenter -t ${p#/proc/} -m true && exit 66; nsenter -t ${p#/proc/} -U true && exit 66; done',
    ofBox('on the host these are the user’s own'),
  ),
];

const readOnly = (id: string, script: (ground: Ground, mark: string) => string): BoxAttempt => {
  const name = `nested-${id}`;
  return {
    id: name,
    run: (ground) => `${script(ground, markOf(name))}\ntrue`,
    changes: ({ reference }) => `${reference}/file`,
    control: inNamespace,
  };
};

const writes: readonly BoxAttempt[] = [
  readOnly(
    'remount',
    ({ reference }, mark) =>
      `mount -o remount,bind,rw '${reference}'; mount -o remount,rw '${reference}'; echo '${mark}' >>'${reference}/file'`,
  ),
  readOnly(
    'bind-writable',
    ({ reference }, mark) =>
      `mkdir m; mount --rbind '${reference}' m; mount -o remount,bind,rw m; echo '${mark}' >>m/file; mount -o remount,bind,rw m; echo '${mark}' >>m/file`,
  ),
  readOnly(
    'bind-of-file',
    ({ reference }, mark) =>
      `touch f; mount --bind '${reference}/file' f; mount -o remount,bind,rw f; echo '${mark}' >>f; umount f; echo '${mark}' >>'${reference}/file'`,
  ),
  readOnly(
    'overlay-upper',
    ({ reference }, mark) =>
      `mkdir m w l; mount -t overlay overlay -o 'userxattr,lowerdir=l,upperdir=${reference},workdir=w' m && echo '${mark}' >>m/file; echo '${mark}' >>'${reference}/file'`,
  ),
  attempt(
    'nested-remount-system',
    () =>
      `for p in /usr /etc /bin /lib; do mount -o remount,bind,rw $p; mount -o remount,rw $p; (echo x >$p/squash-x) 2>/dev/null && exit 66; done; mkdir m; mount --rbind /usr m; mount -o remount,bind,rw m; (echo x >m/squash-x) 2>/dev/null && exit 66; true`,
    ofBox('these are root’s'),
  ),
  attempt(
    'nested-remount-suid',
    ({ out }) =>
      `mkdir m; mount --rbind '${out}' m; for p in m '${out}' /usr; do mount -o remount,bind,suid,dev,exec,ro "$p" && mount -o remount,bind,suid,dev "$p"; grep -F " $(realpath "$p") " /proc/self/mountinfo | grep -v nosuid | grep -q . && exit 66; done; true`,
    ofBox('file systems of the host may be mounted with it'),
  ),
];

const kernel: readonly BoxAttempt[] = [
  ...[
    'proc',
    'sysfs',
    'securityfs',
    'debugfs',
    'tracefs',
    'bpf',
    'configfs',
    'ext4',
    'nfs',
    'binfmt_misc -o x',
  ].map((type) =>
    attempt(
      `nested-mount-${type.replaceAll(/[^a-z0-9]+/g, '-')}`,
      `mkdir m; for w in '' 'unshare --pid --fork' 'unshare --net' 'unshare --ipc --uts --pid --fork'; do $w mount -t ${type} none m && { mountpoint -q m || test -n "$w"; } && exit 66; done; true`,
      ofBox('a user may mount some of them on the host'),
    ),
  ),
  attempt(
    'nested-proc-covers',
    'for p in /proc/keys /proc/key-users /proc/interrupts /proc/pressure /proc/fs /proc/kcore; do umount $p; umount -l $p; mount --move $p .; done; mkdir m; mount --bind /proc m; for f in interrupts keys key-users pressure/memory fs/jbd2; do for d in /proc m; do if grep -qs . $d/$f; then exit 66; fi; done; done; ls -A /proc/fs /proc/pressure | grep -v : | grep . && exit 66; true',
    ofBox('on the host nothing covers them'),
  ),
  attempt('nested-pressure-trigger', '$A pressure-trigger', ofBox('not every kernel has them')),
  ...['cgroup2', 'cgroup -o memory', 'cgroup -o pids', 'cgroup -o freezer', 'cgroup -o cpu'].map((type) =>
    attempt(
      `nested-${type.replaceAll(/[^a-z0-9]+/g, '-')}`,
      // Where there is such a namespace it is tests/vm/box-nesting.test.ts that tries what it shows.
      `mkdir m; mount -t ${type} none m && exit 66; unshare --cgroup --mount sh -c 'mount -t ${type} none m && mkdir m/x' && exit 66; true`,
      ofBox('a user may mount some of them on the host'),
    ),
  ),
  attempt(
    'nested-settings',
    'for f in $(find /proc/sys -type f 2>/dev/null); do case $f in */ns_last_pid | /proc/sys/user/*) continue ;; esac; (exec 3>>"$f") 2>/dev/null && { echo $f; exit 66; }; done; for f in sysrq-trigger irq/default_smp_affinity; do (exec 3>>/proc/$f) 2>/dev/null && exit 66; done; true',
    ofBox('a user may set some of those of his own namespaces'),
  ),
  attempt(
    'nested-settings-of-network',
    "unshare --net sh -c 'for f in kernel/core_pattern kernel/modprobe vm/drop_caches kernel/pid_max fs/file-max net/core/bpf_jit_enable net/core/rmem_max; do (exec 3>>/proc/sys/$f) 2>/dev/null && exit 66; done; exit 0'",
    ofBox('only root may'),
  ),
  attempt(
    'nested-nodes',
    'for t in "c 1 1" "b 254 0" "b 8 0" "c 10 229" "c 10 200"; do $A device $t || exit; mkdir -p m; mount -t tmpfs none m; mknod m/n $t && (exec 3<m/n) && exit 66; umount m; done; true',
    ofBox('only root may'),
  ),
  attempt('nested-processes', '$A processes 1500', ofBox('the control is tests/security/attacks.test.ts')),
  attempt('nested-real-time', '$A real-time', perhaps),
  attempt('nested-listener', '$A seccomp-filter listener', inNamespace),
  attempt('nested-filters', '$A fill-filters 2', inNamespace),
  attempt('nested-filter-of-socket', '$A socket-filter plain', inNamespace),
  ...['user', 'net', 'mnt', 'ipc'].map((kind) =>
    attempt(
      `nested-many-${kind}`,
      // The kernel takes those of networks back a while after their last process: the next attempts find room.
      kind === 'net'
        ? `$A many-namespaces net 400; s=$?; i=0; until unshare --net true 2>/dev/null || [ $((i += 1)) -ge 100 ]; do sleep 0.1; done; exit $s`
        : `$A many-namespaces ${kind} 400`,
      perhaps,
    ),
  ),
  attempt(
    'nested-namespaces-limit',
    'for k in user net mnt pid; do (echo 100000 >/proc/sys/user/max_${k}_namespaces) 2>/dev/null; done; $A many-namespaces user 400',
    perhaps,
  ),
];

const network: readonly BoxAttempt[] = [
  ...['64', '65', '1168'].map((option) =>
    attempt(`nested-netfilter-${option}`, `unshare --net $A netfilter ${option}`, perhaps),
  ),
  ...(
    [
      ['packet', '17 3 768'],
      ['vsock', '40 1 0'],
      ['alg', '38 5 0'],
      ['netfilter', '16 3 12'],
      ['generic-netlink', '16 3 16'],
      ['audit', '16 3 9'],
      ['key', '15 3 2'],
      ['can', '29 3 1'],
    ] as const
  ).map(([name, numbers]) => attempt(`nested-family-${name}`, `unshare --net $A socket ${numbers}`, perhaps)),
  attempt('nested-netlink', '$A netlink 64', perhaps),
  attempt('nested-netlink-of-namespace', 'unshare --net $A netlink 64', perhaps),
  attempt(
    'nested-link-of-box',
    'ip link add squash-n type dummy && exit 66; ip link set lo down && exit 66; ip addr add 10.9.9.9/8 dev lo && exit 66; ip route add 10.9.0.0/16 dev lo && exit 66; true',
    ofBox('only root may'),
  ),
  attempt(
    'nested-link-to-others',
    "unshare --net sh -c 'ip link add a type veth peer name b; ip link set b netns 1 && exit 66; ip link set b netns $PPID && exit 66; exit 0' || exit 66",
    ofBox('only root may'),
  ),
  attempt(
    'nested-network-alone',
    ({ web, port }) =>
      `unshare --net sh -c 'ip link set lo up; $A connect-tcp 127.0.0.1 ${String(port)} || exit; curl -sS -m 3 http://${web ?? 'no-address.invalid'}/ || echo; $A find-interface eth' `,
    ofBox('a network namespace of the host’s has nothing either'),
  ),
  attempt('nested-enter-network', '$A setns net', ofBox('a user may not enter those of the machine')),
];

const identity: readonly BoxAttempt[] = [
  ...['0 0 65536', '0 0 2', '1 1 1', '0 1 1', '1000 0 1\\n0 1000 1'].map((map, at) =>
    attempt(
      `nested-map-${at}`,
      `unshare --user sleep 5 & p=$!; sleep 0.2; printf '${map}' >/proc/$p/uid_map && test "$(awk '{ if ($3 > 1 || $2 != 0) print }' /proc/$p/uid_map)" != "" && exit 66; kill $p; true`,
      ofBox('the helper of the host may be asked there'),
    ),
  ),
  attempt(
    'nested-other-ids',
    'setpriv --reuid=1 --clear-groups id -u 2>/dev/null && exit 66; chown 1:1 . 2>/dev/null && exit 66; newuidmap $$ 0 0 65536 2>/dev/null && exit 66; true',
    ofBox('subordinate ids of the host may be had'),
  ),
];

export const nestedAttempts: readonly BoxAttempt[] = [
  ...mounts,
  ...writes,
  ...kernel,
  ...network,
  ...identity,
];
