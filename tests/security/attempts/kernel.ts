/** Attempts at the kernel and at what a process may become: namespaces, calls, keyrings, privileges. */
import { type Attempt, attemptsOf } from '../attempt.ts';

const namespace = attemptsOf('namespaces');
const kernel = attemptsOf('kernel');
const keyring = attemptsOf('keyrings');
const privilege = attemptsOf('privileges');
const someKernels = { kind: 'namespaces', optional: 'not in every kernel' } as const;

const kinds = ['user', 'mnt', 'net', 'pid', 'uts', 'ipc', 'cgroup', 'time'];

const oneId = { kind: 'namespaces', optional: 'a sandbox with one id has nobody to become' } as const;

const namespaces: readonly Attempt[] = [
  ...kinds.map((kind) => namespace(`namespace-unshare-${kind}`, `$A unshare ${kind}`)),
  ...['user', 'mnt', 'net', 'pid'].map((kind) => namespace(`namespace-clone-${kind}`, `$A clone ${kind}`)),
  ...['user', 'mnt'].map((kind) => namespace(`namespace-clone3-${kind}`, `$A clone3 ${kind}`)),
  namespace('namespace-clone-hidden-flags', '$A clone-hidden'),
  ...['mnt', 'net', 'pid', 'uts'].map((kind) => namespace(`namespace-setns-${kind}`, `$A setns ${kind}`)),
  namespace('namespace-setns-process', '$A setns-process'),
  namespace('namespace-parent', '$A ns-parent', {
    kind: 'none',
    because: 'the kernel refuses it to everybody; a kernel that did not would be noticed here',
  }),
];

const calls: readonly Attempt[] = [
  ...['init_module', 'finit_module', 'delete_module', 'kexec_load', 'kexec_file_load'].map((name) =>
    kernel(`call-${name}`, `$A call ${name}`, someKernels),
  ),
  ...[
    'reboot',
    'swapon',
    'swapoff',
    'acct',
    'quotactl',
    'syslog',
    'fanotify_init',
    'move_pages',
    'mbind',
  ].map((name) => kernel(`call-${name}`, `$A call ${name}`, someKernels)),
  ...['io_uring_setup', 'io_uring_enter', 'io_uring_register', 'io_setup'].map((name) =>
    kernel(`call-${name}`, `$A call ${name}`),
  ),
  ...['lookup_dcookie', 'statmount', 'listmount', 'quotactl_fd', 'open_tree_attr', 'kcmp'].map((name) =>
    kernel(`call-${name}`, `$A call ${name}`, someKernels),
  ),
  kernel('call-vhangup', '$A call vhangup'),
  kernel('call-iopl', '$A call iopl', someKernels),
  kernel('call-ioperm', '$A call ioperm', someKernels),
  kernel('call-bpf', '$A bpf'),
  ...['plain', 'reuseport'].map((kind) => kernel(`call-socket-filter-${kind}`, `$A socket-filter ${kind}`)),
  ...['prctl', 'seccomp', 'listener'].map((way) =>
    kernel(`call-seccomp-filter-${way}`, `$A seccomp-filter ${way}`),
  ),
  kernel('call-perf', '$A perf'),
  kernel('call-userfaultfd', '$A userfaultfd'),
  kernel('call-set-clock', '$A set-clock', { kind: 'namespaces', optional: 'a root without CAP_SYS_TIME' }),
  kernel('call-set-hostname', '$A set-hostname'),
  kernel('call-set-domainname', '$A set-domainname'),
  kernel('call-personality', '$A personality'),
  kernel('call-i386', '$A i386', someKernels),
  kernel('call-x32', '$A x32', someKernels),
];

const keyrings: readonly Attempt[] = ['add_key', 'request_key', 'keyctl-join', 'keyctl-describe'].map(
  (name) => keyring(`keyring-${name}`, `$A call ${name}`),
);

const privileges: readonly Attempt[] = [
  privilege('privilege-capabilities', '$A capabilities'),
  privilege('privilege-add-capability', '$A add-capability', {
    kind: 'namespaces',
    optional: 'a root that lacks CAP_SYS_ADMIN',
  }),
  privilege('privilege-no-new-privileges', '$A new-privileges'),
  privilege('privilege-filter', '$A no-filter'),
  privilege('privilege-set-user-id', '$A set-user-id', oneId),
  privilege('privilege-file-capabilities', '$A file-capabilities', oneId),
  privilege('privilege-uid-map', '$A map-ids'),
  privilege('privilege-foreign-id', '$A foreign-id'),
  privilege('privilege-project-id', '$A change-project', {
    kind: 'namespaces',
    optional: 'a file system without project quota',
  }),
];

export const kernelAttempts: readonly Attempt[] = [...namespaces, ...calls, ...keyrings, ...privileges];
