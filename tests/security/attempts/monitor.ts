/** Attempts from where a VM's monitor runs, by somebody who has taken it over from its guest: what a sandbox has beside is its drives. */
import { type Attempt, attemptsOf } from '../attempt.ts';

const paths = attemptsOf('host-paths');
const processes = attemptsOf('processes');
const devices = attemptsOf('devices');
const sockets = attemptsOf('sockets');
const neighbours = attemptsOf('neighbours');
const privileges = attemptsOf('privileges');

const shared = { kind: 'shared' } as const;
/** The same, at what lies in the control's own directory. */
const at = (line: (path: string) => string) => ({
  kind: 'namespaces' as const,
  run: () => `cp "$A" drive && ${line('drive')}`,
});
/** The same, at a process of one's own. */
const atChild = (line: (pid: string) => string) => ({
  kind: 'namespaces' as const,
  run: () => `sleep 60 & ${line('$!')}; code=$?; kill $!; exit $code`,
});

const drives: readonly Attempt[] = ['l0', 'l1', 'initrd'].map((name) =>
  paths(
    `monitor-write-${name}`,
    `$A open-write /drives/${name}`,
    at((path) => `$A open-write ${path}`),
  ),
);

const replace = (path: string): string =>
  `for line in 'rm -f ${path}' 'mv ${path} ${path}.old' 'ln -f ${path} ${path}.link' 'chmod 777 ${path}' 'chown 1 ${path}' 'truncate -s 0 ${path}'; do
     $line 2>/dev/null && echo "breach: $line"; done; echo "held: ${path}"`;

const seat: readonly Attempt[] = [
  paths('monitor-replace-drive', replace('/drives/l0'), at(replace)),
  paths('monitor-replace-initrd', replace('/drives/initrd'), at(replace)),
  paths(
    'monitor-remount-drive',
    'mount -o remount,rw,bind /drives/l0 2>&1 && echo "breach: writable"; umount -l /drives/l0 2>&1 && echo "breach: gone"; exit 1',
    {
      kind: 'namespaces',
      run: () =>
        'mkdir m && mount -t tmpfs -o ro x m && mount -o remount,rw m && echo "breach: writable"; exit 1',
    },
  ),
  paths('monitor-cover-drive', 'mount -t tmpfs x /drives 2>&1 && echo "breach: covered"; exit 1', {
    kind: 'namespaces',
    run: () => 'mkdir m && mount -t tmpfs x m && echo "breach: covered"; exit 1',
  }),
  processes(
    'monitor-init-memory',
    '$A proc-mem 1',
    atChild((pid) => `$A proc-mem ${pid}`),
  ),
  processes(
    'monitor-init-trace',
    '$A trace 1',
    atChild((pid) => `$A trace ${pid}`),
  ),
  processes('monitor-init-descriptors', 'readlink /proc/1/fd/3 2>&1 && echo "breach: seen"; exit 1', {
    ...atChild((pid) => `readlink /proc/${pid}/fd/0 && echo "breach: seen"; false`),
  }),
  processes(
    'monitor-init-maps',
    'head -n 1 /proc/1/maps 2>&1 | grep "^[0-9a-f]*-" && echo "breach: read"; exit 1',
    {
      ...atChild((pid) => `head -n 1 /proc/${pid}/maps | grep "^[0-9a-f]*-" && echo "breach: read"; false`),
    },
  ),
  processes('monitor-all-signals-one', (around) => `$A signal ${String(around.victimPid)}`, shared),
  devices(
    'monitor-devices',
    'for name in kvm vhost-vsock vhost-net net/tun vfio/vfio mem port fuse loop-control mapper/control userfaultfd vsock; do $A open-device /dev/$name | grep ^breach; done; echo "held: the others"',
  ),
  devices('monitor-make-disk', 'mknod disk b 7 0 2>&1 && echo "breach: made"; exit 1'),
  devices('monitor-make-kvm', 'mknod kvm c 10 232 2>&1 && echo "breach: made"; exit 1'),
  sockets('monitor-vsock', '$A socket 40 1 0'),
  sockets('monitor-packets', '$A socket 17 3 768'),
  sockets('monitor-raw', '$A socket 2 3 255'),
  sockets('monitor-raw-six', '$A socket 10 3 255'),
  sockets('monitor-host-port', (around) => `$A connect-tcp 127.0.0.1 ${String(around.hostPort)}`, shared),
  sockets('monitor-api', (around) => `$A connect-tcp 127.0.0.1 ${String(around.apiPort)}`, shared),
  sockets('monitor-host-abstract', (around) => `$A connect-abstract ${around.hostSocket}`, shared),
  sockets('monitor-metadata', `$A route 169.254.169.254`, {
    kind: 'shared',
    run: (around) => `$A connect-tcp 127.0.0.1 ${String(around.hostPort)}`,
  }),
  neighbours(
    'monitor-neighbour-abstract',
    (around) => `$A connect-abstract ${around.neighbourSocket}`,
    shared,
  ),
  neighbours(
    'monitor-neighbour-port',
    (around) => `$A connect-tcp 127.0.0.1 ${String(around.neighbourPort)}`,
    shared,
  ),
  neighbours(
    'monitor-neighbour-files',
    (around) =>
      `cat /dev/shm/neighbour-file /tmp/neighbour-file ${around.dataDir}/vm/layers/* 2>&1 && echo "breach: read"; exit 1`,
    { kind: 'shared', run: (around) => `cat ${around.secretFile} && echo "breach: read"; exit 1` },
  ),
  neighbours(
    'monitor-neighbour-sockets',
    'find / -xdev -type s 2>/dev/null | grep -v "^/dev/shm/\\(v\\|vhost\\|qmp\\|init\\).sock" | sed "s/^/breach: /"; echo "held: its own"',
    {
      kind: 'shared',
      run: () =>
        '($A exchange s >/dev/null 2>&1 & ) ; python3 -c "import socket; socket.socket(socket.AF_UNIX).bind(\'s\')"; find . -type s | sed "s/^/breach: /"; exit 1',
    },
  ),
  paths('monitor-data-directory', (around) => `$A open-read ${around.dataDir}/squash.db`, {
    kind: 'shared',
    run: (around) => `$A open-read ${around.secretFile}`,
  }),
  privileges('monitor-no-filter', '$A no-filter'),
  privileges('monitor-capabilities', '$A capabilities'),
  privileges('monitor-new-privileges', '$A new-privileges'),
  privileges('monitor-namespace', 'unshare -U true 2>&1 && echo "breach: made"; exit 1'),
  privileges('monitor-add-capability', '$A add-capability'),
];

export const monitorAttempts: readonly Attempt[] = [...drives, ...seat];
