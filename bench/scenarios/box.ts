/**
 * `squash box run true`: a command on this machine in a sandbox, beside Node's own start, bubblewrap alone and srt.
 *
 * All of it runs as an ordinary user with a home of its own: root's box is made in another way, and its home can't be filled.
 */
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { apiSocketPath } from '@squash/contract/data-directory';
import { mustRun, timeToExit } from '../measure/process.ts';
import type { Sample, Scenario, Subject } from '../measure/scenario.ts';
import { BenchUser } from '../squash/bench-user.ts';
import { type Context, rounds, squashSubjects } from './context.ts';

export const boxBound = 'node -e 0, and bubblewrap four times';

const many = { home: 10_000, repository: 100_000 } as const;
/** Rounds between two starts without a daemon. */
const coldEvery = 5;
const idleS = 1;
const waitMsMax = 20_000;

export async function boxScenario(context: Context, stack: AsyncDisposableStack): Promise<Scenario> {
  const plain = stack.use(BenchUser.make('small'));
  plain.fill({ home: 10, repository: 10 });
  return {
    id: 'box',
    title: 'A box',
    about: `\`squash box run true\` in a git repository, from spawn to exit, by an ordinary user: the box is made, \`true\` runs in it, and it is removed, for it wrote nothing. The last call was a moment ago: a command line stands by, which took some 90 ms of a processor behind it. “Large” has a home of ${many.home} entries and a repository of ${many.repository} files. “No daemon”: the last one has ended, and one is started inside of the clock. bubblewrap shows the whole machine read-only, an empty home and the repository; srt has that repository in its settings.`,
    metrics: [{ id: 'call', title: 'one call', unit: 'ms' }],
    warmups: 2,
    rounds: rounds(context, 40),
    subjects: [
      { name: 'node -e 0 (the floor)', cycle: async () => ({ call: await node(plain) }) },
      { name: 'bubblewrap', cycle: async () => ({ call: await bubblewrap(plain) }) },
      {
        name: boxBound,
        cycle: async () => ({ call: (await node(plain)) + 4 * (await bubblewrap(plain)) }),
      },
      ...(await squashSubjects(context, async (squash) => {
        const argv = squash.cli('box', 'run', 'true');
        return [
          await warmSubject('Squash', plain, argv),
          await largeSubject(context, stack, argv),
          coldSubject(plain, argv),
        ];
      })),
      await srtSubject(context, plain),
    ],
  };
}

async function node(user: BenchUser): Promise<number> {
  return await timeToExit([process.execPath, '-e', '0'], user.env, user.place);
}

async function bubblewrap(user: BenchUser): Promise<number> {
  const { home, repository } = user;
  const shown = ['--ro-bind', '/', '/', '--tmpfs', home, '--bind', repository, repository];
  const own = ['--dev', '/dev', '--proc', '/proc', '--tmpfs', '/tmp', '--unshare-all', '--die-with-parent'];
  return await timeToExit(['bwrap', ...shown, ...own, 'true'], user.env, user.place);
}

/** Called once before: one that can't be made is told instead of measured. */
async function subject(name: string, user: BenchUser, argv: readonly string[]): Promise<Subject> {
  try {
    await mustRun(argv, { env: user.env, ...user.place });
  } catch (error) {
    return { name, absent: error instanceof Error ? error.message : String(error) };
  }
  return { name, cycle: async () => ({ call: await timeToExit(argv, user.env, user.place) }) };
}

/** The command line that stands by for the next call is up before anybody else is measured. */
async function warmSubject(name: string, user: BenchUser, argv: readonly string[]): Promise<Subject> {
  const made = await subject(name, user, argv);
  const standby = join(user.home, '.local/state/squash/box/standby.sock');
  if ('absent' in made) return made;
  return {
    ...made,
    cycle: async (round) => {
      const sample = await made.cycle(round);
      await until(() => existsSync(standby), 'no command line stands by');
      return sample;
    },
  };
}

async function largeSubject(
  { quick }: Context,
  stack: AsyncDisposableStack,
  argv: readonly string[],
): Promise<Subject> {
  const name = 'Squash, large';
  const large = stack.use(BenchUser.make('large'));
  if (!large.hasOwnHome) return { name, absent: 'who is no root has no home that may be filled' };
  large.fill(quick ? { home: 100, repository: 100 } : many);
  return await warmSubject(name, large, argv);
}

function coldSubject(user: BenchUser, argv: readonly string[]): Subject {
  const data = join(user.scratch, 'cold');
  const env = { ...user.env, SQUASH_BOX_DATA: data, SQUASH_IDLE_EXIT_S: String(idleS) };
  return {
    name: 'Squash, no daemon',
    every: coldEvery,
    cycle: async (): Promise<Sample> => {
      const call = await timeToExit(argv, env, user.place);
      // Its socket goes when it ends.
      await until(
        () => !existsSync(join(data, apiSocketPath)),
        'the daemon of boxes does not end when it is idle',
      );
      return { call };
    },
  };
}

async function until(isSo: () => boolean, otherwise: string): Promise<void> {
  const deadline = performance.now() + waitMsMax;
  while (!isSo()) {
    if (performance.now() > deadline) throw new Error(otherwise);
    await sleep(50);
  }
}

async function srtSubject({ peers }: Context, user: BenchUser): Promise<Subject> {
  const peer = peers.present.find(({ name }) => name === 'srt');
  if (peer === undefined) {
    return peers.absent.find(({ name }) => name === 'srt') ?? { name: 'srt', absent: 'not prepared' };
  }
  const settings = join(user.scratch, 'srt.json');
  const filesystem = { denyRead: [], allowWrite: [user.repository], denyWrite: [] };
  await writeFile(
    settings,
    JSON.stringify({ network: { allowedDomains: [], deniedDomains: [] }, filesystem }),
  );
  const [program = '', cli = ''] = peer.once([]);
  const made = await subject('srt', user, [program, cli, '--settings', settings, 'true']);
  return 'absent' in made ? made : { ...made, every: 4 };
}
