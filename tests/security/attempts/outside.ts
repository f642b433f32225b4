/** Attempts at processes, sockets, the daemon and other sandboxes. */
import { type Attempt, attemptsOf } from '../attempt.ts';

const processes = attemptsOf('processes');
const sockets = attemptsOf('sockets');
const daemon = attemptsOf('daemon');
const neighbours = attemptsOf('neighbours');
const shared = { kind: 'shared' } as const;

const outsiders: readonly Attempt[] = [
  processes('process-signal', (around) => `$A signal ${String(around.victimPid)}`, shared),
  processes('process-sigqueue', (around) => `$A sigqueue ${String(around.victimPid)}`, shared),
  processes('process-pidfd-signal', (around) => `$A pidfd-signal ${String(around.victimPid)}`, shared),
  processes('process-trace', (around) => `$A trace ${String(around.victimPid)}`, shared),
  processes('process-read-memory', (around) => `$A vm-read ${String(around.victimPid)}`, shared),
  processes('process-open-memory', (around) => `$A proc-mem ${String(around.victimPid)}`, shared),
  processes('process-limits', (around) => `$A prlimit ${String(around.victimPid)}`, shared),
  processes('process-slow-down', (around) => `$A slow-down ${String(around.victimPid)}`, shared),
  processes('process-pin', (around) => `$A pin ${String(around.victimPid)}`, shared),
  processes('process-find', (around) => `$A find-process ${around.victimWord}`, shared),
  processes('process-all-signals', 'kill -9 -1; true', {
    kind: 'none',
    because:
      'that the victim and the neighbour live afterwards is the check; on the machine it would end both',
  }),
  processes('process-raise-priority', '$A raise-priority', {
    kind: 'namespaces',
    optional: 'a root without CAP_SYS_NICE',
  }),
  processes('process-real-time', '$A real-time', {
    kind: 'namespaces',
    optional: 'a control group without real-time share',
  }),
  processes('process-spare-from-oom', '$A spare-from-oom', {
    kind: 'namespaces',
    optional: 'a root without CAP_SYS_RESOURCE',
  }),
  processes('process-raise-open-files', '$A raise-open-files', {
    kind: 'namespaces',
    optional: 'a root without CAP_SYS_RESOURCE',
    run: () => 'ulimit -n 100; $A raise-open-files',
  }),
  processes('process-outside-terminal', '$A outside-terminal', {
    kind: 'namespaces',
    run: () => 'script -qefc "$A outside-terminal x" /dev/null',
  }),
];

const families: readonly Attempt[] = [
  ...(
    [
      ['packet', '17 3 768'],
      ['packet-datagram', '17 2 768'],
      ['raw-icmp', '2 3 1'],
      ['raw-tcp', '2 3 6'],
      ['raw-six', '10 3 58'],
      ['vsock', '40 1 0'],
      ['alg', '38 5 0'],
      ['key', '15 3 2'],
      ['bluetooth', '31 3 1'],
      ['can', '29 3 1'],
      ['tipc', '30 1 0'],
      ['rds', '21 5 0'],
      ['xdp', '44 3 0'],
      ['sctp', '2 1 132'],
      ['sctp-by-type', '2 5 0'],
      ['dccp', '2 6 33'],
      ['l2tp', '2 2 115'],
      ['netlink-uevent', '16 3 15'],
      ['netlink-audit', '16 3 9'],
      ['netlink-netfilter', '16 3 12'],
      ['netlink-generic', '16 3 16'],
      ['netlink-crypto', '16 3 21'],
    ] as const
  ).map(([name, numbers]) =>
    sockets(`socket-${name}`, `$A socket ${numbers}`, {
      kind: 'namespaces',
      ...(/alg|key|bluetooth|can|tipc|rds|xdp|sctp|dccp|l2tp|crypto|audit/.test(name)
        ? { optional: 'not in every kernel' }
        : {}),
    }),
  ),
  sockets('socket-add-link', '$A add-link'),
  sockets('socket-interfaces', '$A find-interface', {
    kind: 'namespaces',
    optional: 'a machine without network',
  }),
  sockets('socket-route-public', '$A route 192.0.2.1', {
    kind: 'namespaces',
    optional: 'a machine without network',
  }),
  sockets('socket-route-metadata', '$A route 169.254.169.254', {
    kind: 'namespaces',
    optional: 'a machine without network',
  }),
  sockets('socket-host-abstract', (around) => `$A connect-abstract ${around.hostSocket}`, shared),
  sockets('socket-host-tcp', (around) => `$A connect-tcp 127.0.0.1 ${String(around.hostPort)}`, shared),
  sockets(
    'socket-host-list',
    (around) => `cat /proc/net/unix; if grep -F ${around.hostSocket} /proc/net/unix; then exit 66; fi`,
    shared,
  ),
  sockets(
    'socket-host-ports',
    (around) =>
      `cat /proc/net/tcp; if grep -i ':${around.hostPort.toString(16).padStart(4, '0')} ' /proc/net/tcp; then exit 66; fi`,
    shared,
  ),
  sockets('socket-host-shm', (around) => `$A shared-memory ${String(around.hostPort)}`, shared),
];

const api: readonly Attempt[] = [
  daemon('daemon-tcp', (around) => `$A connect-tcp 127.0.0.1 ${String(around.apiPort)}`, {
    kind: 'shared',
    run: (around) => `$A connect-tcp 127.0.0.1 ${String(around.hostPort)}`,
  }),
  daemon('daemon-tcp-other-loopback', (around) => `$A connect-tcp 127.0.0.2 ${String(around.apiPort)}`, {
    kind: 'none',
    because: 'the daemon listens on 127.0.0.1 alone, so it is refused everywhere',
  }),
  daemon('daemon-tcp-six', (around) => `$A connect-tcp ::1 ${String(around.apiPort)}`, {
    kind: 'none',
    because: 'the daemon listens on 127.0.0.1 alone, so it is refused everywhere',
  }),
  ...(['api.sock', 'launch.sock'] as const).flatMap((name) => [
    daemon(`daemon-${name}`, (around) => `$A connect-path '${around.dataDir}/run/${name}'`, {
      kind: 'none',
      because: 'the weakened sandbox has no daemon; its TCP row shows that the tool connects',
    }),
    daemon(`daemon-root-${name}`, (around) => `$A connect-path '/proc/1/root${around.dataDir}/run/${name}'`, {
      kind: 'none',
      because: 'the weakened sandbox has no daemon; its TCP row shows that the tool connects',
    }),
  ]),
  daemon(
    'daemon-find-socket',
    'if find / -xdev -name "*.sock" 2>/dev/null | grep .; then exit 66; fi; find /run /tmp /var -type s 2>/dev/null | grep -q . && exit 66; true',
    {
      kind: 'namespaces',
      run: () => 'mkdir found; touch found/x.sock; if find . -xdev -name "*.sock" | grep .; then exit 66; fi',
    },
  ),
  daemon(
    'daemon-find-database',
    'if find / -xdev \\( -name squash.db -o -name sandbox.json \\) 2>/dev/null | grep .; then exit 66; fi',
    {
      kind: 'namespaces',
      run: () => 'touch squash.db; if find . -name squash.db | grep .; then exit 66; fi',
    },
  ),
];

const others: readonly Attempt[] = [
  neighbours(
    'neighbour-files',
    'grep -r neighbour-secret / --include="neighbour*" 2>/dev/null; find / -xdev -name "neighbour-file*" -exec cat {} \\; 2>/dev/null; true',
    {
      kind: 'shared',
      run: (around) => `cat '${around.secretFile}'`,
    },
  ),
  neighbours('neighbour-processes', (around) => `$A find-process ${around.neighbourWord}`, shared),
  neighbours('neighbour-abstract', (around) => `$A connect-abstract ${around.neighbourSocket}`, shared),
  neighbours('neighbour-tcp', (around) => `$A connect-tcp 127.0.0.1 ${String(around.neighbourPort)}`, shared),
  neighbours('neighbour-system-v', (around) => `$A shared-memory ${String(around.neighbourPort)}`, shared),
  neighbours('neighbour-shm-file', 'cat /dev/shm/neighbour-file', {
    kind: 'shared',
    run: (around) => `cat '${around.secretFile}'`,
  }),
  neighbours('neighbour-tmp', 'cat /tmp/neighbour-file', {
    kind: 'shared',
    run: (around) => `cat '${around.secretFile}'`,
  }),
];

export const outsideAttempts: readonly Attempt[] = [...outsiders, ...families, ...api, ...others];
