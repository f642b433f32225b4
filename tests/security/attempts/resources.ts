/** Attempts at more than one's share. Every row has a bound of its own: reaching it is the breach. */
import { type Attempt, attemptsOf, type Surroundings } from '../attempt.ts';

const memory = attemptsOf('memory');
const disk = attemptsOf('disk');
const exhaustion = attemptsOf('exhaustion');

/** Beyond what the sandbox has, and still small for the machine on which the control runs. */
const tooMuchMemory = (around: Surroundings): string => String(around.memoryMb * 2);
const tooMuchDisk = (around: Surroundings): string => String(around.upperMb * 2);

/** A file that goes behind the attempt: what it took is not missing in the next one. */
const alone = (path: string, mebibytes: string): string =>
  `$A fill ${path} ${mebibytes}; code=$?; rm -f ${path}; exit $code`;

export const resourceAttempts: readonly Attempt[] = [
  { ...memory('memory-anonymous', (around) => `$A memory ${tooMuchMemory(around)}`), unless: 'memory_limit' },
  memory('memory-memfd', (around) => `$A memory-file ${tooMuchMemory(around)}`),
  { ...memory('memory-system-v', (around) => `$A shm ${tooMuchMemory(around)}`), unless: 'memory_limit' },
  {
    ...memory('memory-sockets', (around) => `$A socket-buffers ${tooMuchMemory(around)}`),
    unless: 'memory_limit',
  },
  memory('memory-netlink', (around) => `$A netlink ${tooMuchMemory(around)}`),
  memory('memory-dev-shm', (around) => alone('/dev/shm/bomb', tooMuchMemory(around)), {
    kind: 'namespaces',
    run: (around) => `mount -t tmpfs none /mnt && $A fill /mnt/bomb ${tooMuchMemory(around)}`,
  }),
  memory('memory-dev', alone('/dev/bomb', '80'), {
    kind: 'namespaces',
    run: () => 'mount -t tmpfs none /mnt && $A fill /mnt/bomb 80',
  }),
  memory('memory-run', (around) => `$A fill /run/bomb ${tooMuchMemory(around)}`, {
    kind: 'namespaces',
    run: (around) => `mount -t tmpfs none /mnt && $A fill /mnt/bomb ${tooMuchMemory(around)}`,
  }),
  disk('disk-fill', (around) => `$A fill bomb ${tooMuchDisk(around)}`),
  disk('disk-fill-tmp', (around) => `$A fill /tmp/bomb ${tooMuchDisk(around)}`),
  disk('disk-fill-deleted', (around) => `$A fill-deleted bomb ${tooMuchDisk(around)}`),
  disk('disk-fill-sparse', (around) => `$A fill-sparse bomb ${tooMuchDisk(around)}`),
  disk('disk-fill-layer', (around) => `$A fill /bin/bomb ${tooMuchDisk(around)}`, {
    kind: 'namespaces',
    run: (around) => `$A fill bomb ${tooMuchDisk(around)}`,
  }),
  exhaustion('exhaustion-processes', (around) => `$A processes ${String(around.pidsMax + 10)}`, {
    kind: 'shared',
  }),
  exhaustion('exhaustion-threads', (around) => `$A threads ${String(around.pidsMax + 10)}`, {
    kind: 'shared',
  }),
  exhaustion('exhaustion-fork-bomb', '$A fork-bomb 2 >/dev/null 2>&1; echo held: over', {
    kind: 'none',
    because: 'nothing would bound it on the machine; exhaustion-processes shows the limit with a count',
  }),
  exhaustion('exhaustion-descriptors', '$A descriptors file 200000', {
    kind: 'namespaces',
    run: () => '$A descriptors file 500',
  }),
  exhaustion('exhaustion-terminals', '$A descriptors pty 100'),
  exhaustion('exhaustion-pressure', '$A pressure-trigger', {
    kind: 'namespaces',
    optional: 'a kernel without pressure stall information',
  }),
  exhaustion('exhaustion-queues', '$A descriptors queue 2000', {
    kind: 'none',
    because: 'kernel-wide bounds hold for everybody; the rest of the suite shows that the neighbour lives',
  }),
];
