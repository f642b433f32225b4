/** Every other command of `squash` against a real daemon, its `--json` held to the contract. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { capabilitySchema } from '@squash/contract/capability';
import { infoSchema } from '@squash/contract/daemon';
import { limits } from '@squash/contract/limits';
import { moduleInfoSchema, moduleSchema } from '@squash/contract/module';
import { differenceSchema, snapshotSchema } from '@squash/contract/native-snapshot';
import { sandboxInfoSchema } from '@squash/contract/sandbox';
import { z } from 'zod';
import { vmModules } from '../support/backend.ts';
import { packModule, repository } from '../support/base-layer.ts';
import { bothSchema, cliEnvironment, endOf, squash, squashOk, startCli } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { freePort } from '../support/free-port.ts';

describe('squash', () => {
  let daemon: TestDaemon;
  let directory: string;
  before(async () => {
    directory = mkdtempSync(join(tmpdir(), 'squash-cli-'));
    daemon = await TestDaemon.start();
  });
  after(async () => {
    await daemon[Symbol.asyncDispose]();
    rmSync(directory, { recursive: true });
  });

  const json = async (...words: string[]): Promise<unknown> =>
    JSON.parse(await squashOk(daemon, ['--json', ...words]));

  it('create, ls, info and rm take one sandbox through its life', async () => {
    const words = [
      '-l',
      '000-base-test',
      '--owner',
      'me',
      '--task',
      'a\u001b[31mb',
      '--cpu',
      '0.5',
      '-m',
      '256',
      '--lifetime',
      '3600',
    ];
    assert.equal(await squashOk(daemon, ['create', 'one', ...words]), 'one');
    const info = bothSchema.parse(await json('info', 'one'));
    assert.deepEqual([info.owner, info.cpu, info.memory_mb, info.max_lifetime_s], ['me', 0.5, 256, 3600]);
    const listed = bothSchema.array().parse(await json('ls'));
    assert.deepEqual(
      listed.map((each) => each.id),
      ['one'],
    );
    const table = await squashOk(daemon, ['ls']);
    assert.match(table, /^ID +STATE +AGE.*\none +ready +\d+s/);
    const painted = await squashOk(daemon, ['ls'], { env: { FORCE_COLOR: '1' } });
    assert.ok(painted.includes('\u001b[32mready'));
    const plain = await squashOk(daemon, ['ls'], { env: { FORCE_COLOR: '1', NO_COLOR: '1' } });
    assert.ok(!plain.includes('\u001b'));
    const shown = await squashOk(daemon, ['info', 'one']);
    assert.match(shown, /^task: +a\\u\{1b\}\[31mb$/m);
    assert.deepEqual(await json('rm', 'one'), { removed: ['one'] });
    assert.equal((await squash(daemon, ['info', 'one'])).code, 1);
    assert.equal((await squash(daemon, ['rm', 'one'])).code, 1);
    assert.equal((await squash(daemon, ['rm', '-f', 'one'])).code, 0);
    assert.equal((await squash(daemon, ['rm', ''])).code, 2, 'an empty id is not the address of all');
    const gone = await squash(daemon, ['--json', 'rm', 'one']);
    assert.deepEqual(JSON.parse(gone.stdout.toString()), { removed: [] });
    assert.equal(JSON.parse(gone.stderr).error.code, 'sandbox_not_found');
  });

  it('create refuses the numbers that the API refuses, with the same bounds', async () => {
    for (const [option, least, most] of [
      ['--cpu', limits.cpuMin, limits.cpuMax],
      ['--memory', limits.memoryMbMin, limits.memoryMbMax],
      ['--lifetime', 0, limits.lifetimeSMax],
    ] as const) {
      const wrong = await squash(daemon, ['create', 'no', option, `${most + 1}`]);
      assert.deepEqual([wrong.code, wrong.stderr.includes(`from ${least} to ${most},`)], [2, true], option);
    }
  });

  it('info shows each warning in a line of its own', async () => {
    // Fields of parts that do not exist yet: each is answered with a warning.
    const body = JSON.stringify({ id: 'warned', layers: '000-base-test', gui: true, features: ['gui'] });
    await squashOk(daemon, ['create', '--body', body]);
    const { warnings } = bothSchema.parse(await json('info', 'warned'));
    assert.ok(warnings.length >= 2);
    const lines = (await squashOk(daemon, ['info', 'warned'])).split('\n');
    assert.deepEqual(
      lines.slice(-warnings.length).map((line) => line.slice(17)),
      warnings.map(({ message, code }) => `${message} (${code})`),
    );
    await squashOk(daemon, ['rm', 'warned']);
  });

  it('create takes the request as JSON, and makes an id where none is given', async () => {
    const body = JSON.stringify({ id: 'from-json', layers: ['000-base-test'], owner: 'a' });
    assert.equal(await squashOk(daemon, ['create', '--body', body, '--owner', 'b']), 'from-json');
    writeFileSync(join(directory, 'body'), JSON.stringify({ layers: '000-base-test' }));
    const made = await squashOk(daemon, ['create', '--body', `@${join(directory, 'body')}`]);
    assert.match(made, /^sb[a-z2-7]{16}$/);
    assert.equal(bothSchema.parse(await json('info', 'from-json')).owner, 'b');
    for (const wrong of ['[]', '{', 'null', '@/no/such']) {
      assert.equal((await squash(daemon, ['create', '--body', wrong])).code, 2, wrong);
    }
    assert.equal((await squash(daemon, ['rm', '--all'])).code, 2, 'nobody to ask');
    assert.equal((await squash(daemon, ['rm', '--all', '--yes'])).code, 0);
    assert.equal(await squashOk(daemon, ['ls', '-q']), '');
  });

  it('module import, activate, module rm: a layer comes and goes', async () => {
    const file = join(directory, '100-hello.squashfs');
    await packModule(file, { 'opt/hello': 'hello\n' });
    moduleSchema.parse(await json('module', 'import', file));
    const names = moduleInfoSchema
      .array()
      .parse(await json('module', 'ls'))
      .map((each) => each.name);
    assert.deepEqual(names, ['000-base-test', '100-hello', ...vmModules]);
    await squashOk(daemon, ['create', 'm', '-l', '000-base-test']);
    const active = sandboxInfoSchema.parse(await json('activate', 'm', '100-hello'));
    assert.deepEqual(active.layers, ['000-base-test', '100-hello']);
    assert.equal(await squashOk(daemon, ['exec', 'm', 'cat', '/opt/hello']), 'hello');
    const copy = await squash(daemon, ['module', 'import', file, '--name', 'copy']);
    assert.equal(copy.code, 0);
    assert.match(copy.stderr, /warning: no sandbox can be made of "copy"/);
    await squashOk(daemon, ['module', 'rm', 'copy']);
    const used = await squash(daemon, ['module', 'rm', '100-hello']);
    assert.equal(used.code, 1);
    assert.match(used.stderr, /\(module_in_use\)/);
    await squashOk(daemon, ['rm', 'm']);
    assert.equal(await squashOk(daemon, ['module', 'rm', '100-hello']), '100-hello');
    mkdirSync(join(directory, 'tools/bin'), { recursive: true });
    mkdirSync(join(directory, 'tools/usr/bin'), { recursive: true });
    const made = await squash(daemon, ['module', 'build', 'from-dir', join(directory, 'tools'), '300-tools']);
    assert.equal(made.code, 0, made.stderr);
    assert.match(made.stderr, /warning: "bin" of ".*tools" hides that of a base .* "usr\/bin"/);
    await squashOk(daemon, ['module', 'rm', '300-tools']);
    const again = await squash(daemon, ['module', 'import', '-', '--name', '100-piped'], {
      input: Buffer.from('no squashfs'),
    });
    assert.equal(again.code, 1);
    assert.match(again.stderr, /\(module_invalid\)/);
    for (let round = 0; round < 5; round += 1) {
      const refused = await squash(daemon, ['module', 'import', file, '--name', 'a b']);
      assert.match(
        refused.stderr,
        /"a b" is no module name \(invalid_request\)/,
        'not how the connection ended',
      );
    }
    assert.equal((await squash(daemon, ['module', 'import', directory])).code, 1);
    assert.equal((await squash(daemon, ['module', 'import', '/no/such'])).code, 1);
  });

  it('snapshot, snapshots ls|get|rm|put and restore bring files back', async () => {
    await squashOk(daemon, ['create', 's', '-l', '000-base-test']);
    await squashOk(daemon, ['exec', 's', '-c', 'echo before > /root/file']);
    assert.equal(await squashOk(daemon, ['snapshot', 's', 'first']), 'first');
    await squashOk(daemon, ['exec', 's', '-c', 'echo after > /root/file']);
    const labels = snapshotSchema
      .array()
      .parse(await json('snapshots', 'ls', 's'))
      .map((each) => each.label);
    assert.deepEqual(labels, ['first']);
    assert.match(await squashOk(daemon, ['snapshots', 'ls', 's']), /^LABEL +AGE +SIZE.*\nfirst +\d+s /);
    assert.equal(sandboxInfoSchema.parse(await json('restore', 's', 'first')).active_snapshot, 'first');
    assert.equal(await squashOk(daemon, ['exec', 's', 'cat', '/root/file']), 'before');
    assert.equal((await squash(daemon, ['restore', 's', 'none'])).code, 1);
    z.object({ snapshot: z.string(), size: z.int() }).parse(await json('snapshot', 's', 'second'));
    await squashOk(daemon, ['exec', 's', '-c', 'echo new > "/root/a\u001bb"; chmod 600 /root/file']);
    assert.equal(
      await squashOk(daemon, ['snapshots', 'diff', 's', 'second', '--against', 'current']),
      '+ 0644 /root/a\\u{1b}b\n! 0600 /root/file',
    );
    const since = differenceSchema.array().parse(await json('snapshots', 'diff', 's', 'second'));
    assert.ok(since.some(({ change, path }) => change === 'added' && path === '/root/file'));
    const labelled = snapshotSchema.parse(await json('snapshots', 'label', 's', 'second', 'a=b', 'c'));
    assert.deepEqual(labelled.labels, { a: 'b', c: '' });
    assert.equal(
      await squashOk(daemon, ['snapshots', 'label', 's', 'second', 'c-', '--rename', 'third']),
      'third  a=b',
    );
    assert.equal(await squashOk(daemon, ['snapshots', 'ls', 's', '-q', '--label', 'a=b']), 'third');
    await squashOk(daemon, ['snapshots', 'label', 's', 'third', '--rename', 'second']);
    const file = join(directory, 'kept.squashfs');
    const { size } = z
      .object({ label: z.literal('second'), file: z.literal(file), size: z.int() })
      .parse(await json('snapshots', 'get', 's', 'second', file));
    assert.equal(statSync(file).size, size);
    const again = await squash(daemon, ['snapshots', 'get', 's', 'second', file]);
    assert.match(again.stderr, /exists; --force replaces it \(file_exists\)/);
    await squashOk(daemon, ['snapshots', 'get', 's', 'second', file, '--force']);
    assert.deepEqual(
      readdirSync(directory).filter((name) => name.endsWith('.part')),
      [],
    );
    // In the singular, too; a sandbox of such a name is snapshotted with -- before it.
    assert.equal(await squashOk(daemon, ['snapshot', 'rm', 's', 'first', 'second']), 'first\nsecond');
    assert.match((await squash(daemon, ['snapshot', '--', 'rm', 'x'])).stderr, /sandbox_not_found/);
    assert.equal(await squashOk(daemon, ['modules', '-q']), await squashOk(daemon, ['module', 'ls', '-q']));
    const put = snapshotSchema.parse(await json('snapshots', 'put', 's', file));
    assert.deepEqual([put.label, put.size_bytes, put.whole], ['kept', size, true]);
    const piped = await squash(daemon, ['snapshots', 'put', 's', '-', 'piped'], {
      input: readFileSync(file),
    });
    assert.equal(piped.code, 0, piped.stderr);
    assert.equal((await squash(daemon, ['snapshots', 'put', 's', '-'])).code, 2);
    assert.equal(await squashOk(daemon, ['snapshots', 'ls', 's', '-q']), 'kept\npiped');
    assert.equal(
      (await squash(daemon, ['__complete', '--', 'snapshots', 'rm', 's', 'p'])).stdout
        .toString()
        .split('\t')[0],
      'piped',
    );
    await squashOk(daemon, ['restore', 's', 'piped']);
    assert.equal(await squashOk(daemon, ['exec', 's', 'cat', '/root/file']), 'before');
    await squashOk(daemon, ['rm', 's']);
  });

  it('doctor, version and --config tell of the running daemon', async () => {
    const doctor = z.object({ running: z.literal(true), host: capabilitySchema.array().min(1) });
    const told = await json('doctor');
    const { host } = doctor.parse(told);
    // Codemode asks for sandboxes that are held to their memory.
    const engines = z.object({ codemode: z.array(z.object({ name: z.string(), usable: z.boolean() })) });
    assert.equal(
      engines.parse(told).codemode.find(({ name }) => name === 'sandbox')?.usable,
      host.some((each) => each.name === 'cgroup_memory' && each.state === 'ok'),
    );
    assert.ok(host.every((each) => !each.required || each.state !== 'missing'));
    const shown = await squashOk(daemon, ['doctor']);
    assert.match(shown, /CAPABILITY +STATE +FOUND/);
    for (const { name, state, weaker, remedy } of host) {
      if (state === 'ok') continue;
      assert.equal(shown.includes(`\n${name}: `), weaker !== null, name);
      if (weaker === null && remedy !== null) assert.ok(!shown.includes(remedy), remedy);
    }
    const config = infoSchema.shape.config.parse(await json('doctor', '--config'));
    assert.equal(config.find((each) => each.name === 'SQUASH_DATA')?.value, daemon.dataDir);
    const version = z.object({ client: z.string(), daemon: z.string(), node: z.string() });
    const { client, daemon: served } = version.parse(await json('version'));
    assert.equal(await squashOk(daemon, ['version']), `squash ${client}\ndaemon ${served}`);
    assert.match(
      await squashOk(daemon, ['doctor', '--config']),
      new RegExp(`^Daemon .* pid ${daemon.pid},.*started with`),
    );
    assert.equal((await squash(daemon, ['doctor', '--repair'])).code, 1);
  });

  it('fails in one line or one object, with the documented code', async () => {
    const text = await squash(daemon, ['info', 'none']);
    assert.match(text.stderr, /^squash: [^\n]+ \(sandbox_not_found\)\n$/);
    const object = await squash(daemon, ['info', 'none', '--json']);
    const schema = z.strictObject({ error: z.strictObject({ code: z.string(), message: z.string() }) });
    assert.equal(schema.parse(JSON.parse(object.stderr)).error.code, 'sandbox_not_found');
    assert.equal((await squash(daemon, ['ls', '--nope'])).code, 2);
    assert.equal((await squash(daemon, ['nope'])).code, 2);
    assert.equal((await squash(daemon, [])).code, 2);
    assert.equal((await squash(undefined, ['ls', '--socket', '/none'])).code, 3);
  });

  it('lists the commands of a group, not their pages', async () => {
    const said = await squashOk(daemon, ['help', 'policy']);
    assert.match(said, /^ {2}policy learn +\S/m);
    assert.doesNotMatch(said, /Options/);
  });

  it('ends quietly when its reader goes', async () => {
    const child = startCli(daemon, ['help'], { stdio: ['ignore', 'pipe', 'pipe'] });
    child.stdout?.destroy();
    const end = await endOf(child);
    assert.ok(end.code === 141 || end.code === 0);
    assert.equal(end.stderr, '');
  });

  it('speaks TCP with a token where one is asked for, and gives none to the socket', async () => {
    await daemon.stop();
    await daemon.start({ SQUASH_AUTH_TOKEN: 'sesame' });
    const url = ['--url', daemon.url];
    assert.equal((await squash(daemon, ['ls', ...url])).code, 1);
    assert.equal((await squash(daemon, ['ls', ...url, '--token', 'wrong'])).code, 1);
    assert.equal((await squash(daemon, ['ls', ...url, '--token', 'sesame'])).code, 0);
    assert.equal((await squash(daemon, ['ls', ...url], { env: { SQUASH_AUTH_TOKEN: 'sesame' } })).code, 0);
    assert.equal((await squash(daemon, ['ls'])).code, 0);
    await daemon.stop();
    await daemon.start();
  });

  it('completes commands, options and names in a real bash', async () => {
    await squashOk(daemon, ['create', 'complete-me', '-l', '000-base-test']);
    await squashOk(daemon, ['snapshot', 'complete-me', 'label-one']);
    const complete = (...words: string[]): string[] => {
      const script = `source <(squash completion bash)
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE=$*; COMP_LINE=\${COMP_LINE// : /:}
        COMP_LINE=\${COMP_LINE// = /=}; COMP_LINE=\${COMP_LINE/% :/:}; _squash squash; printf '%s\\n' "\${COMPREPLY[@]}"`;
      const env = { ...cliEnvironment(daemon), PATH: `${repository}:${process.env['PATH']}` };
      const said = execFileSync('bash', ['-c', script, 'bash', 'squash', ...words], {
        encoding: 'utf8',
        env,
        cwd: directory,
      });
      return said.split('\n').filter((line) => line !== '');
    };
    assert.deepEqual(complete('snap'), ['snapshot', 'snapshots']);
    assert.deepEqual(complete('module', 'i'), ['import', 'inspect']);
    assert.deepEqual(complete('snapshot', 'l'), ['ls', 'label']);
    assert.deepEqual(complete('snapshot', 'comp'), ['complete-me']);
    assert.deepEqual(complete('keys', ''), ['create', 'ls', 'rm']);
    assert.deepEqual(complete('exec', 'comp'), ['complete-me']);
    assert.deepEqual(complete('exec', '--work'), ['--workdir']);
    assert.deepEqual(complete('restore', 'complete-me', ''), ['label-one']);
    assert.deepEqual(complete('activate', 'complete-me', '000'), ['000-base-test']);
    assert.deepEqual(complete('create', 'x', '--layers', '000-base-test,000'), [
      '000-base-test,000-base-test',
    ]);
    assert.deepEqual(complete('--json', 'rm', 'complete-me', 'c'), ['complete-me']);
    assert.deepEqual(complete('completion', 'f'), ['fish']);
    assert.deepEqual(complete('egress', 'x', '--verdict', 'd'), ['denied']);
    assert.deepEqual(complete('codemode', 'run', '--executor', 'q'), ['quickjs']);
    assert.deepEqual(complete('module', 'build', 'py'), ['python', 'python3.12']);
    assert.deepEqual(complete('help', 'policy', 'l'), ['learn']);
    // As bash cuts the words: what stands before the last cut is not its to replace.
    assert.deepEqual(complete('policy', 'set', 'x', 'preset', ':', 'py'), ['pypi']);
    assert.deepEqual(complete('policy', 'set', 'x', 'preset', ':').slice(0, 2), ['debian', 'ubuntu']);
    assert.deepEqual(complete('create', '--allow-net', '=', 'preset', ':', 'py'), ['pypi']);
    assert.deepEqual(complete('egress', 'x', '--verdict', '=', 'al'), ['allowed']);
    assert.deepEqual(complete('create', '--from', 'comp'), ['complete-me']);
    assert.deepEqual(complete('create', '--from', 'complete-me', ':', 'l'), ['label-one']);
    assert.deepEqual(complete('create', '--from', '=', 'complete-me', ':'), ['label-one']);
    writeFileSync(join(directory, 'a file.squashfs'), '');
    assert.deepEqual(complete('module', 'import', 'a'), ['a file.squashfs']);
    assert.deepEqual(complete('exec', 'complete-me', 'ls', ''), []);
    await squashOk(daemon, ['rm', 'complete-me']);
  });

  it('completion scripts are valid where their shells are installed', async () => {
    for (const shell of ['bash', 'zsh', 'fish']) {
      const script = await squashOk(daemon, ['completion', shell]);
      const checked = spawnSync(shell, ['-n'], { input: script, encoding: 'utf8' });
      if (checked.error === undefined) assert.equal(checked.stderr, '', shell);
    }
    assert.equal((await squash(daemon, ['completion', 'csh'])).code, 2);
  });

  it('sq-ctl does what the original’s did, and evaluates nothing', async () => {
    const ctl = (...words: string[]) =>
      spawnSync(join(repository, 'packaging/bin/sq-ctl'), words, {
        encoding: 'utf8',
        env: cliEnvironment(daemon),
        cwd: directory,
      });
    const parsed = (...words: string[]): Record<string, unknown> => {
      const end = ctl(...words);
      assert.equal(end.status, 0, end.stderr);
      return JSON.parse(end.stdout) as Record<string, unknown>;
    };
    assert.equal(
      parsed('create', 'dev', 'alice', '000-base-test', "it's $(touch x)")['task'],
      "it's $(touch x)",
    );
    assert.equal(parsed('exec', 'dev', `echo "it's"; echo '$(id)'`)['stdout'], "it's\n$(id)\n");
    assert.equal(parsed('exec', 'dev', 'echo', 'a', 'b')['stdout'], 'a b\n');
    assert.equal(parsed('info', 'dev')['owner'], 'alice');
    assert.equal(parsed('snapshot', 'dev', 'l1')['snapshot'], 'l1');
    assert.equal(typeof parsed('snapshot', 'dev', '--local')['snapshot'], 'string');
    assert.equal(parsed('restore', 'dev', 'l1')['active_snapshot'], 'l1');
    for (const words of [['list'], ['modules'], ['logs', 'dev']]) {
      const end = ctl(...words);
      assert.equal(end.status, 0, end.stderr);
      assert.ok(Array.isArray(JSON.parse(end.stdout)));
    }
    assert.equal(parsed('health')['status'], 'ok');
    const refused = ctl('info', 'nobody');
    assert.equal(refused.status, 1);
    assert.equal(typeof (JSON.parse(refused.stdout) as { error: unknown }).error, 'string');
    const destroyed = ctl('destroy', 'dev');
    assert.deepEqual([destroyed.status, destroyed.stdout], [0, 'destroyed: dev\n']);
    assert.match(ctl('exec', 'dev').stdout, /^usage: sq-ctl exec/);
    assert.match(ctl().stdout, /^usage: sq-ctl <command>/);
    assert.match(ctl('push').stdout, /SQUASH_S3_BUCKET names none/);
  });

  it('stop ends the daemon and leaves sandboxes; stop --all ends them and keeps their files', async () => {
    await squashOk(daemon, ['create', 'stays', '-l', '000-base-test']);
    const job = await squashOk(daemon, ['exec', '-d', 'stays', '-c', 'sleep 600']);
    const pid = daemon.pid;
    assert.match(await squashOk(daemon, ['stop']), new RegExp(`Stopped the daemon, pid ${pid}`));
    await daemon.ended();
    assert.equal(await squashOk(daemon, ['stop']), 'No daemon runs.');
    await daemon.start();
    assert.match(await squashOk(daemon, ['jobs', 'stays']), new RegExp(`${job} +running`));
    await squashOk(daemon, ['exec', 'stays', '-c', 'echo kept > /root/kept']);
    assert.match(await squashOk(daemon, ['stop', '--all']), /Sandboxes ended: [1-9]/);
    await daemon.ended();
    assert.match(await squashOk(daemon, ['doctor']), /^No daemon runs/);
    assert.equal((await squash(daemon, ['doctor', '--repair'])).code, 0);
    await daemon.start();
    assert.equal(await squashOk(daemon, ['exec', 'stays', 'cat', '/root/kept']), 'kept');
  });

  it('stop, doctor and serve leave the daemon of another data directory alone that has the port', async () => {
    const env = { SQUASH_DATA: join(directory, 'not-its'), SQUASH_PORT: `${daemon.port}` };
    const other = (...words: string[]) => squash(undefined, words, { env });
    const { pid } = daemon;
    assert.equal((await other('ls')).code, 0, 'it does answer there');
    const stopped = await other('stop');
    assert.deepEqual([stopped.code, stopped.stdout.toString()], [0, 'No daemon runs.\n']);
    assert.equal((await other('doctor', '--repair')).code, 0);
    assert.match((await other('doctor')).stdout.toString(), /^No daemon runs/);
    const second = await other('serve', '--detach');
    assert.equal(second.code, 1);
    assert.match(second.stderr, /another program listens there.*SQUASH_PORT/);
    // Before it builds anything.
    assert.match((await other('quickstart')).stderr, /listens there.*\n\(quickstart stopped at "data"/);
    assert.equal((await other('stop', '--all')).code, 0);
    assert.equal(daemon.pid, pid);
    await squashOk(daemon, ['ls']);
  });

  it('serve --detach returns when the daemon answers, and refuses a second one', async () => {
    const data = join(directory, 'detached');
    const env = { SQUASH_DATA: data, SQUASH_PORT: `${await freePort()}` };
    const started = await squash(undefined, ['serve', '--detach', '--json'], { env });
    assert.equal(started.code, 0, started.stderr);
    try {
      const { pid, log } = z
        .object({ pid: z.int(), log: z.string() })
        .parse(JSON.parse(started.stdout.toString()));
      assert.equal(log, join(data, 'log/squashd.log'));
      process.kill(pid, 0);
      assert.equal((await squash(undefined, ['serve', '--detach'], { env })).code, 1);
    } finally {
      const stopped = await squash(undefined, ['stop', '--all'], { env });
      assert.equal(stopped.code, 0, stopped.stderr);
    }
    const wrong = await squash(undefined, ['serve', '--detach'], {
      env: { ...env, SQUASH_MAX_SANDBOXES: 'nonsense' },
    });
    assert.equal(wrong.code, 1);
    assert.match(wrong.stderr, /SQUASH_MAX_SANDBOXES is "nonsense".*\(config_invalid\)/);
    const elsewhere = { SQUASH_HOST: '192.0.2.1', SQUASH_AUTH_TOKEN: 'a-token-of-enough-characters' };
    const nowhere = await squash(undefined, ['serve', '--detach'], { env: { ...env, ...elsewhere } });
    assert.equal(nowhere.code, 1);
    assert.match(nowhere.stderr, /Cannot listen on 192\.0\.2\.1.*\(config_invalid\)/);
    // Found out by the daemon itself.
    writeFileSync(join(data, 'secrets.json'), 'nonsense', { mode: 0o600 });
    const late = await squash(undefined, ['serve', '--detach'], { env });
    assert.equal(late.code, 1);
    assert.match(late.stderr, /did not start: .*secrets\.json.*its log is/);
    assert.equal((await squash(undefined, ['stop', '--all'], { env })).code, 0);
  });
});
