/** What a guest boots with in any VMM: a disk to write to, and what squash-boot is told by the kernel's command line. */
import { errorText } from '@squash/base/bug';
import { AppError } from '@squash/contract/errors';
import type { StartSpec } from '../driver.ts';
import type { VmPlan } from './vmm.ts';
import type { VmmCommand } from './vmm-channel.ts';

export interface GuestNetwork {
  /** With its prefix. */
  readonly address: string;
  readonly gateway: string;
  readonly nameserver: string;
}

/** Free pieces of 64 KiB and more are told to the balloon. Of the kernel's own choice, 2 MiB, a small guest has few. */
export const freePagesWord = 'page_reporting.page_reporting_order=4';

/** Once in the life of an upper: an empty file system, in a file that has no room yet. */
export function makeUpper({ upper: { path, bytes, inodes } }: VmPlan): VmmCommand {
  const words = [
    '-q',
    '-F',
    '-t',
    'ext4',
    '-m',
    '0',
    '-N',
    `${inodes}`,
    '-E',
    'lazy_itable_init=1,lazy_journal_init=1,nodiscard',
  ];
  return {
    how: 'make',
    path,
    argv: ['/usr/sbin/mke2fs', ...words, `${path}.new`, `${Math.floor(bytes / 1024)}k`],
  };
}

/** All but the time, which one that was copied is told otherwise, and the network. */
export function guestWords(plan: VmPlan): readonly string[] {
  return [
    `squash.lowers=${plan.lowers.length}`,
    `squash.hostname=${plan.hostname}`,
    `squash.shm=${plan.shmBytes}`,
    `squash.files=${plan.openFilesMax}`,
    `squash.pids=${plan.pidsMax}`,
    ...(plan.isRead ? ['squash.reads=1'] : []),
    ...plan.mounts.map(({ mode, path }) => `squash.mount=${mode}:${kernelPath(path)}`),
  ];
}

/** The same for all that are copied: each is alone in its network. */
export function networkWords({ hasNetwork }: VmPlan, network: GuestNetwork): readonly string[] {
  if (!hasNetwork) return [];
  return [
    `squash.nameserver=${network.nameserver}`,
    `squash.address=${network.address}`,
    `squash.gateway=${network.gateway}`,
  ];
}

/** A word of the command line, of any path. */
function kernelPath(path: string): string {
  return [...Buffer.from(path.replace(/^\//, ''))]
    .map((byte) => {
      const character = String.fromCodePoint(byte);
      return /[A-Za-z0-9_./-]/.test(character) ? character : `%${byte.toString(16).padStart(2, '0')}`;
    })
    .join('');
}

/** What its console says last is a guest's word: it decides no more than which of two refusals is told, about a place that we know. */
export function startFailure(
  cause: unknown,
  console: readonly string[],
  { mounts }: Pick<StartSpec, 'mounts'>,
): AppError {
  const refused = mounts.find(({ path }) =>
    console.some((line) => line.includes(`squash-boot: mount on ${path}, which is no directory`)),
  );
  if (refused === undefined) {
    const isLate = cause instanceof DOMException && cause.name === 'TimeoutError';
    const why = isLate
      ? 'it did not answer in time; with much memory, or on a busy host, a guest starts slowly'
      : errorText(cause);
    return new AppError('launch_failed', `The microVM does not start: ${[why, ...console].join('; ')}`, {
      cause,
    });
  }
  const text = `"${refused.path}" in the sandbox is no directory, or a link is on the way`;
  return new AppError('mount_refused', text, { cause });
}
