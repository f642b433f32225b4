/**
 * Policies of boxes as programs inside find them: what a person's file opens, what a repository's own file can't, and that what
 * `--print-policy` prints makes the same box.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { BoxPlace } from '../support/box-place.ts';
import { cliCommand, type CliEnd, cliEnvironment, squash } from '../support/cli.ts';
import { Terminal } from '../support/terminal.ts';
import { waitFor } from '../support/wait.ts';

const skip = process.getuid?.() === 0 ? 'only an ordinary user has boxes' : false;

describe('policies of boxes', { skip }, () => {
  let place: BoxPlace;
  let scratch: string;
  let work: string;
  let repository: string;
  let env: Record<string, string>;

  before(() => {
    place = new BoxPlace('box-policy', 'project');
    ({ scratch, work, repository } = place);
    mkdirSync(join(repository, 'sub'));
    for (const [name, text] of [
      ['project/.env', 'KEY=1\n'],
      ['project/sub/.env', 'KEY=2\n'],
      ['project/masked', 'a secret\n'],
      ['notes', 'notes\n'],
      ['private', 'private\n'],
    ] as const)
      writeFileSync(join(work, name), text);
    env = Object.assign(place.env, { STOLEN: 'of-the-shell', A_KEY: 'a-key-of-mine' });
  });

  after(async () => await place[Symbol.asyncDispose]());

  const box = async (...words: readonly string[]): Promise<CliEnd> => await place.box(...words);

  const looks = 'cat ../notes ../private .env sub/.env masked 2>/dev/null; echo "$STOLEN|$GIVEN"';
  const seen = async (...options: readonly string[]): Promise<string> => {
    const end = await box('run', '--rm', ...options, '--', 'sh', '-c', looks);
    assert.equal(end.code, 0, end.stderr);
    return end.stdout.toString();
  };

  it('a repository’s own file opens nothing until it is trusted, and closes at once', async () => {
    writeFileSync(
      join(repository, 'squash-box.toml'),
      `version = 1\n[fs]\n"${work}/notes" = "ro"\n"./**/.env" = "hidden"\n[env]\npass = ["STOLEN", "OTHER_*"]\n`,
    );
    assert.equal(await seen(), 'a secret\n|\n');
    const agreed = await box('trust', 'add');
    assert.equal(agreed.code, 0);
    assert.deepEqual(agreed.stdout.toString().match(/(?<=does not count: )[^:]*/g), ['env.pass "OTHER_*"']);
    assert.equal(await seen(), 'notes\na secret\nof-the-shell|\n');
    writeFileSync(
      join(repository, 'squash-box.toml'),
      `version = 1\n[fs]\n"${work}/private" = "ro"\n"./**/.env" = "hidden"\n`,
    );
    assert.equal(await seen(), 'a secret\n|\n', 'it changed');
  });

  it('a repository’s own file is shown before somebody agrees, who may say no', {
    skip: spawnSync('python3', ['--version']).status === 0 ? false : 'python3 is not installed',
  }, async () => {
    const file = join(repository, 'squash-box.toml');
    writeFileSync(file, 'version = 1\n[env]\nset = { SHOWN = "first" }\n');
    const words = [...cliCommand, 'box', 'trust', 'add'];
    // As `waitpid` has it.
    for (const [answer, status] of [
      ['n', 256],
      ['y', 0],
    ] as const) {
      await using terminal = new Terminal(['sh', '-c', `cd ${repository} && exec "$@"`, 'sh', ...words], {
        rows: 24,
        columns: 200,
        env: { ...cliEnvironment(undefined), ...env },
      });
      await terminal.see(/SHOWN[^]*as it is now\? \[y\/N\] $/);
      terminal.type(`${answer}\r`);
      assert.deepEqual(await terminal.end(), { status, restored: true });
      const shown = (await box('trust')).stdout.toString();
      assert.match(shown, answer === 'y' ? /: trusted/ : /: not trusted/);
    }
    await box('trust', 'revoke');
    rmSync(file);
  });

  it('why says which words it takes', async () => {
    for (const words of [
      ['why', 'foo'],
      ['why', 'foo', 'bar'],
      ['why', 'path'],
    ])
      assert.match((await box(...words)).stderr, /squash box why path ~\/\.ssh.*\(usage\)/, words.join(' '));
  });

  it('the user’s file counts, and what is printed of it makes the same box', async () => {
    rmSync(join(repository, 'squash-box.toml'), { force: true });
    const file = join(scratch, 'config/squash/box.jsonc');
    const policy = {
      version: 1,
      fs: { [`${work}/notes`]: 'ro', './.env': 'deny', './masked': { mask: 'nothing here\n' } },
      env: { set: { GIVEN: 'by the policy' } },
      secrets: { A_KEY: { from: 'env:A_KEY', hosts: ['api.example.com'] } },
      limits: { time_s: 600 },
    };
    writeFileSync(file, JSON.stringify(policy), { mode: 0o600 });
    const wanted = 'notes\nKEY=2\nnothing here\n|by the policy\n';
    assert.equal(await seen(), wanted);
    const inside = (await box('run', '--rm', '--', 'sh', '-c', 'echo "$A_KEY"')).stdout.toString().trim();
    assert.ok(inside !== '' && inside !== 'a-key-of-mine', 'a placeholder stands for the key');
    const printed = (await box('run', '--print-policy', '--', 'true')).stdout.toString();
    rmSync(file);
    const given = join(scratch, 'printed.jsonc');
    writeFileSync(given, printed);
    assert.equal(await seen(), 'KEY=1\nKEY=2\na secret\n|\n', 'without the file');
    assert.equal(await seen('--policy', given), wanted);
  });

  it('a box has as many processes as its policy and its options say, the least of them', async () => {
    const given = join(scratch, 'few.toml');
    writeFileSync(given, 'version = 1\n[limits]\nprocesses = 40\n');
    const script = 'i=0; while [ $i -lt 80 ]; do sleep 5 & i=$((i + 1)); done; echo all';
    const forked = async (...words: readonly string[]): Promise<string> =>
      (await box('run', '--rm', ...words, '--', 'sh', '-c', script)).stdout.toString();
    assert.equal(await forked(), 'all\n');
    assert.equal(await forked('--policy', given), '');
    assert.equal(await forked('--policy', given, '--processes', '200'), '');
    assert.equal(await forked('--processes', '40'), '');
    const shown = await box('run', '--dry-run', '--policy', given, '--', 'true');
    assert.match(shown.stdout.toString(), /Limit: processes 40/);
  });

  it('a file that is wrong starts no box', async () => {
    const given = join(scratch, 'wrong.toml');
    writeFileSync(given, 'version = 1\n[netw]\n');
    const end = await box('run', '--policy', given, '--', 'true');
    assert.equal(end.code, 126);
    assert.match(end.stderr, /wrong\.toml:2: "netw" is unknown; the nearest known key is "net"/);
    // What was meant for a sandbox of its own does not run over this machine's files, whoever says it.
    writeFileSync(join(repository, 'squash-box.toml'), 'version = 1\nroot = { image = "python:3.12" }\n');
    const other = await box('run', '--', 'true');
    rmSync(join(repository, 'squash-box.toml'));
    assert.equal(other.code, 126);
    assert.match(other.stderr, /squash-box\.toml:2: root: of a sandbox, not of a box: squash run --policy/);
  });

  it('asks a person, whose answer holds once, for the box or for the repository', async () => {
    const file = join(scratch, 'config/squash/box.toml');
    writeFileSync(file, 'version = 1\n[net]\nask = ["*"]\n');
    // Who connects is let in and then waits; who leaves asks no more.
    const ask = (host: string): string =>
      `(exec 3<>/dev/tcp/${host}.example.com/443; read -r -u 3) 2>/dev/null`;
    const script = `${ask('once')}; ${ask('kept')}; ${ask('refused')}`;
    const id = (await box('run', '-d', '--', 'bash', '-c', script)).stdout.toString().trim();
    assert.notEqual(id, '');
    await using terminal = new Terminal([...cliCommand, 'box', 'approve', '--watch'], {
      rows: 40,
      columns: 150,
      env: { ...cliEnvironment(undefined), ...env },
    });
    for (const [host, key, then] of [
      ['once', 'y', /allowed/],
      ['kept', 'p', /allowed[\s\S]*kept in \S+answers\.jsonc/],
      ['refused', 'n', /denied/],
    ] as const) {
      await terminal.see(new RegExp(`Box ${id} waits for ${host}\\.example\\.com:443[\\s\\S]*later: `));
      await waitFor(`the answer ${then}`, async () => {
        // What is typed at once with the question is not heard; typed twice, it would answer the next one.
        terminal.type(`${key}\n`);
        return await waitFor('its effect', () => then.test(terminal.screen), 3_000).catch(() => false);
      });
    }
    terminal.type('\u0003');
    await terminal.end();
    assert.equal((await box('rm', id)).code, 0);
    const why = await box('why', 'host', 'kept.example.com:443');
    assert.match(why.stdout.toString(), /allowed[\s\S]*answers\.jsonc/);
    for (const host of ['once', 'refused'])
      assert.doesNotMatch((await box('why', 'host', `${host}.example.com:443`)).stdout.toString(), /answers/);
    const elsewhere = join(work, 'other');
    mkdirSync(elsewhere);
    const end = await squash(undefined, ['box', 'why', 'host', 'kept.example.com:443'], {
      cwd: elsewhere,
      env,
    });
    assert.doesNotMatch(end.stdout.toString(), /answers/);
    rmSync(file);
  });
});
