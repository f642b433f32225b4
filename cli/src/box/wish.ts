/** The options of `box run` and `box shell`, read into what is asked of the daemon. */
import { resolve } from 'node:path';
import { isatty } from 'node:tty';
import { boxRules, repositoryLevels, type RepositoryLevel } from '@squash/box/base-rules';
import { isBranchName } from '@squash/box/git/branch-names';
import { passedVariables } from '@squash/box/environment';
import { gitDirectories } from '@squash/box/worktree';
import { limits } from '@squash/contract/limits';
import { processesMin } from '@squash/contract/processes-limit';
import type { Flags } from '../arguments.ts';
import { readEnvironment } from '../commands/exec-options.ts';
import { durationSeconds } from '../durations.ts';
import { usageFailure } from '../failure.ts';
import { asCliFailure, ownUser } from './daemon.ts';
import { type BoxWish, readEnd } from './box-wish.ts';
import type { BoxSecrets } from './policy.ts';
import { readDevices, writtenDevice } from './devices.ts';
import { readSockets } from './sockets.ts';
import { underPolicy } from './under-policy.ts';

const levelOfFlag = { ro: 'ro', rw: 'rw', cow: 'cow', hide: 'hidden', deny: 'deny' } as const;

/** @throws usage, box_refused */
export async function readBoxWish(
  flags: Flags,
  argv: readonly string[],
  secrets?: BoxSecrets,
): Promise<BoxWish> {
  const [keep, remove, detach] = [flags.isSet('keep'), flags.isSet('rm'), flags.isSet('detach')];
  if (keep && remove) throw usageFailure('--keep and --rm exclude each other');
  if (detach && remove)
    throw usageFailure('--rm is of a command that is waited for, and with --detach nobody waits');
  const user = ownUser();
  const { TERM: term, ...common } = passedVariables(process.env);
  const [repo, named] = [readRepositoryLevel(flags), readPlaces(flags)];
  const rules = await asCliFailure(() =>
    boxRules(
      { cwd: process.cwd(), home: user.home, uid: user.uid, path: common['PATH'] ?? '' },
      { repo, named, program: argv[0] },
    ),
  );
  const sockets = flags.list('unix-socket');
  const here = { cwd: process.cwd(), home: user.home };
  const devices = flags.list('device').map((word) => writtenDevice(word, here));
  const publish = await readPublished(flags);
  const nesting = flags.isSet('nesting');
  const timeS = durationSeconds(flags, 'time', { min: 1, max: limits.jobTimeoutSMax });
  const isTerminal = isatty(0) && isatty(1);
  const network = readNetwork(flags);
  const branch = readBranch(flags);
  const end = readEnd(rules, { keep, remove, branch });
  const wish: BoxWish = {
    rules,
    argv,
    env: { ...(term !== undefined && { TERM: term }), ...readEnvironment(flags) },
    tty: flags.isSet('tty') || isTerminal,
    timeoutMs: timeS === undefined || timeS === 0 ? undefined : timeS * 1_000,
    keep,
    remove,
    detach,
    branch,
    sockets: readSockets(sockets, here),
    devices: readDevices(devices, here),
    publish,
    create: {
      from: {
        host: {
          paths: rules.paths,
          user: { name: user.name, home: rules.home, shell: user.shell },
          ...end.host,
          ...(flags.isSet('trace-paths') && { trace_paths: true }),
          ...(nesting && { nesting }),
        },
      },
      env: common,
      secrets: [],
      ...(flags.isSet('name') && { name: flags.text('name') }),
      ...readLimits(flags),
      ...network,
      ...(end.labels !== undefined && { labels: end.labels }),
    },
  };
  const net = network.policy?.allow ?? ['*'];
  const written = sockets.map(writtenFully);
  const sayings = { repo, named, net, secrets, sockets: written, devices, publish, nesting };
  const whole = await underPolicy(flags, wish, sayings);
  if (branch !== undefined) checkBranchPlace(whole.rules, user.uid);
  return whole;
}

/** Of what is written here itself a branch would throw away changes. @throws usage */
function checkBranchPlace({ repository, paths }: BoxWish['rules'], uid: number): void {
  if (repository === undefined || paths[repository] !== 'cow')
    throw usageFailure('--branch is for a repository that is copy-on-write');
  if (gitDirectories(repository, uid) === undefined)
    throw usageFailure(
      `--branch is for a git repository, and ${repository} is none of yours; to make one: git init`,
    );
}

function readBranch(flags: Flags): BoxWish['branch'] {
  const [name, base] = [flags.text('branch'), flags.text('base')];
  if (name === undefined) {
    if (base !== undefined) throw usageFailure('--base says where a --branch begins');
    return undefined;
  }
  if (!isBranchName(name))
    throw usageFailure(`"${name}" can be no branch: letters, digits and "._+@#=,-", with "/" between parts`);
  if (base?.startsWith('-') === true) throw usageFailure(`--base takes a commit, not "${base}"`);
  return { name, base: base ?? 'HEAD' };
}

/** As a policy file has it. */
function writtenFully(word: string): string {
  return /^(?:ssh-agent|\$SSH_AUTH_SOCK)(?:=|$)/.test(word) || /^~?\//.test(word) ? word : resolve(word);
}

function readRepositoryLevel(flags: Flags): RepositoryLevel | undefined {
  const text = flags.text('repo');
  if (text === undefined) return undefined;
  const level = repositoryLevels.find((each) => each === text);
  if (level === undefined) throw usageFailure(`--repo is ${repositoryLevels.join(', ')}, not "${text}"`);
  return level;
}

function readPlaces(flags: Flags) {
  return Object.entries(levelOfFlag).flatMap(([name, level]) =>
    flags.list(name).map((word) => ({ word, level })),
  );
}

function readLimits(flags: Flags) {
  const cpu = flags.number('cpu', { min: limits.cpuMin, max: limits.cpuMax });
  const memory = flags.integer('memory', { min: limits.memoryMbMin, max: limits.memoryMbMax });
  const processes = flags.integer('processes', { min: processesMin, max: limits.sandboxPidsMax });
  return {
    ...(cpu !== undefined && { cpu }),
    ...(memory !== undefined && { memory_mb: memory }),
    ...(processes !== undefined && { processes_max: processes }),
  };
}

/** In one spelling: a policy file has the same. @throws usage */
async function readPublished(flags: Flags): Promise<readonly string[]> {
  const words = flags.list('publish');
  if (words.length === 0) return [];
  const { parseForward } = await import('../client/forward.ts');
  return words.map(parseForward).map(({ local, port }) => (local === port ? `${port}` : `${local}:${port}`));
}

/** A box reaches nothing unless it was said. */
function readNetwork(flags: Flags): { readonly policy?: { readonly allow: readonly string[] } } {
  const given = ['net', 'no-net', 'net-all'].filter((name) => flags.isSet(name));
  if (given.length > 1) throw usageFailure(`--${given[0]} and --${given[1]} exclude each other`);
  if (flags.isSet('net-all')) return {};
  const words = flags.list('net').flatMap((list) => list.split(','));
  return { policy: { allow: words.map((word) => word.trim()).filter((word) => word !== '') } };
}
