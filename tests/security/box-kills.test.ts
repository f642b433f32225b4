/**
 * Whatever of a box is killed, and whenever: the repository and the home are as `diff` said, what `apply` wrote is whole, nothing stays
 * behind, and the next box works.
 *
 * `./squash test --long` kills 200 times; `KILLS=1000 SEED=7 node --test tests/security/box-kills.test.ts` any number.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type Random, seeded } from '../faults/random.ts';
import { type CliEnd, endOf, startCli } from '../support/cli.ts';
import { expectNoLeaks, type ProcessEntry, processesOf } from '../support/leaks.ts';
import { waitFor } from '../support/wait.ts';
import { BoxHost } from './box-host.ts';

const skip = process.getuid?.() === 0 ? 'only an ordinary user has boxes' : false;
const kills = Number(process.env['KILLS'] ?? (process.env['TEST_LONG'] === '1' ? 200 : 6));
const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000);

const files = 250;
const fileLines = 2_000;
/** No call of the command line takes longer, whatever was killed under it. */
const callMsMax = 60_000;

interface Killing {
  readonly phase: 'run' | 'apply';
  readonly victim: keyof typeof victims;
  /** After the box's command has begun, or `apply`. */
  readonly afterMs: number;
}

/** How each is known among the processes that name the data directory, or descend from one that does. */
const victims = {
  'command line': ({ command }) => command.includes('cli/bin/squash.cjs box'),
  daemon: ({ command }) => command.includes('host/src/main.ts'),
  keeper: ({ command }) => command.startsWith('squash-launch keeper'),
  egress: ({ command }) => command.includes('egress/src/main.ts'),
  launcher: ({ command }) => command.startsWith('squash-launch resident'),
  'first process': ({ command }) => command.includes(' --listen-fd '),
  program: ({ command }) => command === 'the-program-inside',
} as const satisfies Record<string, (entry: ProcessEntry) => boolean>;

/** Each at least once in each phase that it lives in, the others by chance. */
function plan(random: Random, count: number): readonly Killing[] {
  const sure = Object.keys(victims).flatMap((name): readonly Omit<Killing, 'afterMs'>[] => {
    const victim = name as Killing['victim'];
    const isOfRun = victim === 'first process' || victim === 'program';
    return isOfRun
      ? [{ phase: 'run', victim }]
      : [
          { phase: 'run', victim },
          { phase: 'apply', victim },
        ];
  });
  return Array.from({ length: count }, (_, at) => ({
    ...(sure[at] ?? random.pick(sure)),
    afterMs: Math.floor(random.below(300)),
  }));
}

/** Which run beside this one, in the same home. */
const ofOtherTests =
  /^\.?(?:claude-)?squash-(?:(?:box|srt|seed)-)?(?:test|policy|module)-|^\.(?:ssh|aws|kube|password-store|npm|config)$/;

describe('a box whose parts are killed', { skip }, () => {
  let host: BoxHost;
  let home: readonly string[];
  const homeNames = (): readonly string[] =>
    readdirSync(userInfo().homedir).filter((name) => !ofOtherTests.test(name));

  before(() => {
    host = new BoxHost();
    mkdirSync(join(host.work, 'tree'));
    putOld();
    home = homeNames();
  });
  after(() => host[Symbol.asyncDispose]());

  const nameOf = (at: number): string => `tree/f${at}`;
  const textOf = (at: number, version: string): string => `${version} ${at}\n`.repeat(fileLines);
  const putOld = (): void => {
    for (let at = 0; at < files; at += 1) writeFileSync(join(host.work, nameOf(at)), textOf(at, 'old'));
  };
  /** Writes each file anew under the same name, and one more for each. */
  const script = `exec perl -e '$0 = "the-program-inside"; $| = 1; print "begun\\n";
    for my $at (0 .. ${files - 1}) { for my $name ("tree/f$at", "tree/new$at") {
      open(F, ">", $name); print F "new $at\\n" x ${fileLines}; close(F) } }
    print "written\\n"; sleep 600 if $ARGV[0]' `;

  /** Everything but git's own: what no box may have changed. */
  const fingerprint = (): string => {
    const hash = createHash('sha256');
    for (const name of readdirSync(host.work, { recursive: true, encoding: 'utf8' }).toSorted()) {
      const path = join(host.work, name);
      const status = lstatSync(path);
      hash.update(`${name} ${status.mode} ${status.uid}\n`);
      if (status.isFile()) hash.update(readFileSync(path));
    }
    return hash.digest('hex');
  };

  it(`leaves everything as it was after ${kills} kills (seed ${seed})`, async (context) => {
    const random = seeded(seed);
    const outcomes = new Map<string, number>();
    for (const [at, killing] of plan(random, kills).entries()) {
      const name = `${at}: ${killing.victim} in ${killing.phase}, after ${killing.afterMs} ms`;
      const outcome = await (killing.phase === 'run' ? killRun(killing) : killApply(killing)).catch(
        (cause: unknown) => {
          throw new Error(`kill ${name} (seed ${seed})`, { cause });
        },
      );
      const key = `${killing.phase}, ${killing.victim}: ${outcome}`;
      outcomes.set(key, (outcomes.get(key) ?? 0) + 1);
      assert.deepEqual(homeNames(), home, name);
    }
    for (const [what, count] of outcomes) context.diagnostic(`${what}: ${count}`);
    await nothingStays();
  });

  /** @returns whether there was one */
  const kill = (victim: Killing['victim'], command: number | undefined): boolean => {
    const found = processesOf(host.data).filter((entry) =>
      victim === 'command line' ? entry.pid === command : victims[victim](entry),
    );
    for (const { pid } of found) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It ended by itself meanwhile.
      }
    }
    return found.length > 0;
  };

  const startCall = (...words: readonly string[]) => {
    const child = startCli(undefined, ['box', ...words], {
      cwd: host.work,
      env: host.environment,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    return { child, end: inTime(endOf(child), words.join(' ').slice(0, 60)) };
  };

  async function killRun({ victim, afterMs }: Killing): Promise<string> {
    const before = fingerprint();
    const { child, end } = startCall('run', '--', 'sh', '-c', `${script} 1`);
    const begun = new Promise((resolve) => child.stdout?.once('data', resolve));
    await Promise.race([begun, end]);
    await delay(afterMs);
    // The egress process of a new daemon comes behind the first box.
    await waitFor('the victim', () => kill(victim, child.pid));
    if (victim === 'egress') {
      // A box goes on without it, and the daemon starts the next one.
      await waitFor('another egress process', () => processesOf(host.data).some(victims.egress));
      assert.ok(kill('program', undefined));
    }
    const { code, stderr } = await endedWith(victim, end);
    assert.notEqual(code, 0, stderr);
    assert.equal(fingerprint(), before, 'the repository changed');
    // What runs on with nobody waiting is ended by the daemon: by the next one, where that was killed.
    await waitFor('the box to stop', async () => /^(?!.*\bready\b)/s.test(await host.printed('ps')), 30_000);
    const [box] = await boxes();
    if (box !== undefined) {
      for (const path of await changed(box)) assert.match(path, /^tree\/(?:f|new)\d+$/);
      assert.equal(fingerprint(), before, 'diff changed the repository');
      await host.printed('rm', box);
    }
    await nextWorks();
    return box === undefined ? 'removed' : 'kept';
  }

  async function killApply({ victim, afterMs }: Killing): Promise<string> {
    await host.printed('run', '--keep', '--', 'sh', '-c', `${script} 0`);
    const [box = ''] = await boxes();
    const { child, end } = startCall('apply', box);
    let isOver = false;
    void end.finally(() => (isOver = true)).catch(() => undefined);
    // From its first moments on, or from the first file on.
    if (afterMs % 4 === 0) await delay(afterMs);
    else {
      while (!isOver && textAt(join(host.work, 'tree/new0')) === undefined) await delay(1);
      await delay(afterMs / 5);
    }
    const isThere = kill(victim, child.pid);
    const { code } = await endedWith(victim, end);
    let applied = wholeFiles();
    // What the daemon has begun it ends, with nobody waiting.
    await waitFor('diff to say what is there', async () => {
      const left = new Set(await changed(box));
      applied = wholeFiles();
      return [...applied].every(([path, version]) => left.has(path) === (version !== 'new'));
    });
    // What was left beside a file in that moment goes with the next one.
    await host.printed('apply', box);
    assert.deepEqual([...new Set(wholeFiles().values())], ['new']);
    assert.deepEqual(
      readdirSync(join(host.work, 'tree')).filter((name) => !/^(?:f|new)\d+$/.test(name)),
      [],
    );
    await host.printed('rm', box);
    await nextWorks();
    const count = [...applied.values()].filter((version) => version === 'new').length;
    putOld();
    for (let at = 0; at < files; at += 1) rmSync(join(host.work, `tree/new${at}`), { force: true });
    if (!isThere) return 'was over';
    const came = count === 0 ? 'nothing came' : count === 2 * files ? 'all came' : 'some came';
    return code === 0 ? `it went on, ${came}` : came;
  }

  async function endedWith(victim: Killing['victim'], end: Promise<CliEnd>): Promise<CliEnd> {
    const ended = await end;
    if (victim === 'command line' && ended.code !== 0) assert.equal(ended.signal, 'SIGKILL');
    return ended;
  }

  const boxes = async (): Promise<readonly string[]> =>
    (await host.printed('ps', '-q')).split('\n').filter((id) => id !== '');

  /** As `diff` says: paths without the marks. */
  const changed = async (box: string): Promise<readonly string[]> =>
    (await host.printed('diff', box)).split('\n').flatMap((line) => / (tree\/\w+)$/.exec(line)?.[1] ?? []);

  /** @throws where a file is neither the old one nor the new one */
  const wholeFiles = (): ReadonlyMap<string, 'old' | 'new' | 'missing'> => {
    const found = new Map<string, 'old' | 'new' | 'missing'>();
    for (let at = 0; at < files; at += 1) {
      for (const path of [nameOf(at), `tree/new${at}`]) {
        const text = textAt(join(host.work, path));
        const version = text === undefined ? 'missing' : text.startsWith('new') ? 'new' : 'old';
        if (text !== undefined) assert.equal(text, textOf(at, version), `${path} is not whole`);
        found.set(path, version);
      }
    }
    return found;
  };

  async function nextWorks(): Promise<void> {
    const { end } = startCall('run', 'true');
    const { code, stderr } = await end;
    assert.equal(code, 0, stderr);
    assert.deepEqual(await boxes(), []);
  }

  async function nothingStays(): Promise<void> {
    await waitFor('the daemon to end', () => processesOf(host.data).length === 0, 60_000);
    await expectNoLeaks(host.data);
    for (const name of ['sandboxes', 'tmp', 'trash', 'secrets'])
      assert.deepEqual(namesIn(join(host.data, name)), [], name);
    assert.deepEqual(
      namesIn(join(host.data, 'run')).filter((name) => name.endsWith('.sock')),
      [],
    );
  }
});

function textAt(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ENOENT') throw cause;
    return undefined;
  }
}

function namesIn(directory: string): readonly string[] {
  return existsSync(directory) ? readdirSync(directory) : [];
}

async function inTime(end: Promise<CliEnd>, what: string): Promise<CliEnd> {
  const ms = AbortSignal.timeout(callMsMax);
  return await Promise.race([
    end,
    new Promise<never>((_, reject) => {
      ms.addEventListener('abort', () => reject(new Error(`"${what}" does not end`)), { once: true });
    }),
  ]);
}
