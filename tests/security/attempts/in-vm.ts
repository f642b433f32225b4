/**
 * Attempts that a microVM's guest may succeed with, and why nobody loses by it: a guest has a kernel of its own, and its wall is around
 * that. They are made there all the same: what is outside must be unharmed, and no secret seen.
 */
const calls = 'a microVM has its calls answered by a kernel that is nobody else’s';
const names = 'a microVM has ids, keys and namespaces of a kernel that is nobody else’s';
const network =
  'a microVM has an interface, whose packets are QEMU’s connections and meet the same policy: tests/egress';
const messages =
  'a microVM has sockets of a kernel that is nobody else’s, and vsock leads to its monitor alone';

const ids: Readonly<Record<string, readonly string[]>> = {
  [calls]: [
    'mount-api-fsconfig',
    ...['quotactl', 'quotactl_fd', 'move_pages', 'mbind', 'statmount', 'listmount', 'open_tree_attr'].map(
      (name) => `call-${name}`,
    ),
    ...['io_uring_setup', 'io_uring_enter', 'io_uring_register', 'io_setup', 'personality', 'i386'].map(
      (name) => `call-${name}`,
    ),
    ...['socket-filter-plain', 'socket-filter-reuseport'].map((name) => `call-${name}`),
    ...['prctl', 'seccomp', 'listener'].map((way) => `call-seccomp-filter-${way}`),
    'privilege-filter',
  ],
  [names]: [
    ...['unshare-user', 'clone-user', 'clone3-user', 'clone-hidden-flags'].map((name) => `namespace-${name}`),
    ...['add_key', 'request_key', 'keyctl-join', 'keyctl-describe'].map((name) => `keyring-${name}`),
    'privilege-uid-map',
    'privilege-foreign-id',
  ],
  [network]: ['socket-interfaces', 'socket-route-public', 'socket-route-metadata'],
  [messages]: [
    'socket-vsock',
    ...['uevent', 'audit', 'netfilter', 'generic'].map((name) => `socket-netlink-${name}`),
  ],
  'a microVM has interrupts and disks of its own to tell of': ['device-proc-files'],
  'a microVM has its own memory to keep answers in': ['memory-netlink'],
  'a microVM has a kernel of its own to be told of its pressure': ['exhaustion-pressure'],
};

/** An attempt's id → the reason. */
export const differsInVm: ReadonlyMap<string, string> = new Map(
  Object.entries(ids).flatMap(([reason, each]) => each.map((id) => [id, reason] as const)),
);
