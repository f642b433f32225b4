/**
 * Every attempt of `box/` from inside a box that the real command line made, of an ordinary user and in one box, and again where it has
 * started anew. The attacker's success is the failing condition, and each is shown to succeed on the host, as the same user.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { cliCommand, cliEnvironment, squash, startCli } from '../support/cli.ts';
import { processesOf } from '../support/leaks.ts';
import { Terminal } from '../support/terminal.ts';
import { waitFor } from '../support/wait.ts';
import { type AttemptOutput, outcomeOf } from './attempt.ts';
import type { BoxAttempt } from './box/attempt.ts';
import { boxWords, drive, harmOf } from './box/drive.ts';
import { layScripts, readOutputs } from './box/driver.ts';
import { fileAttempts, prepareRestart, restartAttempts } from './box/files.ts';
import { type Ground, LaidGround } from './box/ground.ts';
import { outsideAttempts } from './box/outside.ts';
import { BoxScene } from './box/scene.ts';

const isRoot = process.getuid?.() === 0;
const hasPython = spawnSync('python3', ['-c', 'import pty']).status === 0;
const attempts = [...outsideAttempts, ...fileAttempts];
const every = [...attempts, ...restartAttempts];

describe('a box', { skip: isRoot ? 'only an ordinary user has boxes' : false }, () => {
  const { homedir } = userInfo();
  const stack = new AsyncDisposableStack();
  let scene: BoxScene;
  let inBox: LaidGround;
  let onHost: LaidGround;
  let outputs: ReadonlyMap<string, AttemptOutput>;
  let controls: ReadonlyMap<string, AttemptOutput>;
  let harmed: ReadonlySet<string>;
  let controlsHarmed: ReadonlySet<string>;

  before(async () => {
    if (isRoot) return;
    scene = stack.use(await BoxScene.start());
    const work = mkdtempSync(join(homedir, 'squash-box-test-'));
    const elsewhere = mkdtempSync(join(homedir, 'squash-box-test-'));
    stack.defer(() => rmSync(elsewhere, { recursive: true, force: true }));
    const { secret } = scene;
    inBox = stack.use(new LaidGround(scene.outside, { home: homedir, work, secret }));
    onHost = stack.use(
      new LaidGround(scene.outside, { home: elsewhere, work: join(elsewhere, 'work'), secret }),
    );
    const tools = join(work, 'tools');
    mkdirSync(tools);
    copyFileSync(scene.outside.tool, join(tools, 'attack'));
    const scriptsOf = (ground: Ground, tried: readonly BoxAttempt[]) =>
      tried.map(({ id, run }) => ({ id, text: run(ground), inNamespace: false }));
    const first = layScripts(tools, 'first', [
      ...scriptsOf(inBox.ground, attempts),
      { id: 'prepare-restart', text: prepareRestart(inBox.ground), inNamespace: false },
    ]);
    const again = layScripts(tools, 'again', scriptsOf(inBox.ground, restartAttempts));
    const control = layScripts(
      tools,
      'control',
      every.flatMap(({ id, run, control: { kind, ...control } }) => {
        const text = ('run' in control && control.run !== undefined ? control.run : run)(onHost.ground);
        return kind === 'none' ? [] : [{ id, text, inNamespace: kind === 'namespace' }];
      }),
    );
    const options = { cwd: inBox.ground.project, env: scene.env };
    const words = ['box', 'run', '--keep', '--name', 'attacked', ...boxWords(inBox.ground, tools)];
    const text = await drive(
      startCli(undefined, [...words, '--', ...first], options),
      () => inBox.layLater(secret),
      async () => {
        harmed = harmOf(inBox.ground, attempts);
        onHost.layLater(secret);
        const [shell = 'sh', ...rest] = control;
        const child = spawn(shell, rest, {
          cwd: elsewhere,
          env: { ...process.env, ...scene.env, HOME: elsewhere, LD_LIBRARY_PATH: '', NODE_OPTIONS: '' },
        });
        controls = readOutputs(
          await drive(
            child,
            () => {},
            async () => {},
          ),
        );
        controlsHarmed = harmOf(onHost.ground, attempts);
      },
    );
    const restarted = startCli(undefined, ['box', 'exec', 'attacked', '--', ...again], options);
    outputs = readOutputs(
      text +
        (await drive(
          restarted,
          () => {},
          async () => {},
        )),
    );
  });

  after(async () => {
    if (isRoot) return;
    await squash(undefined, ['box', 'rm', 'attacked'], { cwd: homedir, env: scene.env });
    await waitFor('the daemon to end', () => processesOf(scene.outside.dataDir).length === 0, 60_000);
    await stack.disposeAsync();
  });

  for (const attempt of every) {
    it(`holds when ${attempt.id} is tried`, () => {
      const script = attempt.run(inBox.ground);
      const output = outputs.get(attempt.id);
      assert.ok(output !== undefined, 'it was not tried');
      const outcome = outcomeOf(script, output, scene.secrets);
      const isUntried =
        outcome === 'untried' && attempt.control.kind !== 'none' && attempt.control.optional !== undefined;
      assert.ok(
        outcome === 'held' || isUntried,
        `${outcome}, exit ${output.exitCode}\n${script}\n${output.stdout}`,
      );
      assert.ok(!harmed.has(attempt.id), `the host’s file has changed\n${script}`);
    });
  }

  for (const { id, run, control } of every) {
    if (control.kind === 'none') continue;
    it(`is what keeps ${id} from success`, (context) => {
      const script = (control.run ?? run)(onHost.ground);
      const output = controls.get(id);
      assert.ok(output !== undefined, 'it was not tried');
      const outcome = outcomeOf(script, output, scene.secrets);
      if (outcome === 'breach' || controlsHarmed.has(id)) return;
      if (control.optional === undefined || outcome === 'broken')
        assert.fail(`${outcome}, exit ${output.exitCode}\n${script}\n${output.stdout}`);
      context.diagnostic(
        `no proof on this machine: ${control.optional}: ${output.stdout.slice(-200).trim()}`,
      );
    });
  }

  it('prepared its second start as the attempts want it', () => {
    assert.equal(outputs.get('prepare-restart')?.exitCode, 0, outputs.get('prepare-restart')?.stdout);
  });

  it('leaves nothing outside harmed', async () => {
    assert.deepEqual(await scene.host.harm(), []);
  });

  it('shows names that it made without what a terminal obeys', async () => {
    const folder = mkdtempSync(join(inBox.ground.out, 'names-'));
    const options = { cwd: folder, env: scene.env };
    const script = `printf '\\033[2Jx' >"$(printf 'a\\033]0;title\\007\\302\\233b')"; mkdir "$(printf 'd\\r\\033[31m')"`;
    const words = ['box', 'run', '--keep', '--name', 'named', '--', 'sh', '-c', script];
    assert.equal((await squash(undefined, words, options)).code, 0);
    for (const args of [['diff', 'named'], ['diff', '--patch', 'named'], ['ps']]) {
      const { code, stdout, stderr } = await squash(undefined, ['box', ...args], options);
      assert.equal(code, 0, stderr);
      const obeyed = Array.from(`${stdout.toString()}${stderr}`).filter(
        (each) => /\p{Cc}/u.test(each) && each !== '\n',
      );
      assert.deepEqual(obeyed, []);
    }
    await squash(undefined, ['box', 'rm', 'named'], options);
  });

  it('types nothing into the terminal that it was started from', {
    skip: hasPython ? false : 'python3 is not installed',
  }, async () => {
    const folder = mkdtempSync(join(inBox.ground.out, 'terminal-'));
    const script = join(folder, 'inject.py');
    // TIOCSTI, and TIOCLINUX with its paste.
    writeFileSync(
      script,
      `import fcntl
for fd in 0, 1, 2:
  for number, words in (0x5412, [bytes([b]) for b in b"injected\\n"]), (0x541C, [b"\\x03"]):
    for word in words:
      try: fcntl.ioctl(fd, number, word)
      except OSError: pass
`,
    );
    const run = [...cliCommand, 'box', 'run', '--rm', '--', 'python3', script];
    const outer = `cd '${folder}' && "$@"; echo over; read -r line; echo "read=$line."`;
    await using terminal = new Terminal(['sh', '-c', outer, 'sh', ...run], {
      rows: 30,
      columns: 100,
      env: { ...cliEnvironment(undefined), ...scene.env, LD_LIBRARY_PATH: '', NODE_OPTIONS: '' },
    });
    await terminal.see(/over\r\n/);
    terminal.type('typed\r');
    const [, line] = await terminal.see(/read=(.*)\./);
    assert.equal(line, 'typed');
  });
});

/** Its daemon runs under the ids of the host's root, and only what is closed keeps root's own files from it. */
describe('a box of root', { skip: isRoot ? false : 'only root has such boxes' }, () => {
  const stack = new AsyncDisposableStack();
  let scene: BoxScene;

  before(async () => {
    if (isRoot) scene = stack.use(await BoxScene.start());
  });

  after(async () => {
    if (!isRoot) return;
    await waitFor('the daemon to end', () => processesOf(scene.outside.dataDir).length === 0, 60_000);
    await stack.disposeAsync();
  });

  it('reads nothing that root alone may read, and is root of nothing', async () => {
    const work = mkdtempSync('/var/tmp/squash-box-test-');
    const written = mkdtempSync('/var/tmp/squash-box-test-');
    const baits = ['/etc/squash-box-test', '/opt/squash-box-test'];
    for (const path of [work, written, ...baits])
      stack.defer(() => rmSync(path, { recursive: true, force: true }));
    for (const bait of baits) {
      mkdirSync(join(bait, 'closed'), { recursive: true, mode: 0o755 });
      chmodSync(join(bait, 'closed'), 0o700);
      writeFileSync(join(bait, 'closed/key'), scene.secret);
      writeFileSync(join(bait, 'key'), scene.secret, { mode: 0o600 });
    }
    writeFileSync(join(work, 'file'), 'shown');
    const { temporary, lasting, victimPid, sockets, tool } = scene.outside;
    copyFileSync(tool, join(work, 'attack'));
    // It does where nothing is between.
    assert.match(String(spawnSync(tool, ['file-capabilities', join(written, 'x')]).stdout), /^breach:/);
    const rows: readonly (readonly [string, string])[] = [
      ...baits.flatMap((bait): [string, string][] => [
        [`file ${bait}`, `cat ${bait}/key`],
        [`directory ${bait}`, `cat ${bait}/closed/key`],
        [`by root ${bait}`, `cat /proc/1/root${bait}/key /proc/self/root${bait}/key`],
      ]),
      ['all', 'find /etc /opt -type f ! -perm -o=r 2>/dev/null | grep . && exit 66'],
      ['shadow', 'cat /etc/shadow /etc/gshadow /etc/sudoers /etc/sudoers.d/* && exit 66'],
      ['keys of the host', 'cat /etc/ssh/ssh_host_*_key /etc/ssl/private/* && exit 66'],
      ['connections', 'cat /etc/NetworkManager/system-connections/* && exit 66'],
      ['homes', 'for d in /home/*; do ! ls -A "$d" 2>/dev/null | grep -q . || exit 66; done'],
      ['home', 'cat /root/.ssh/* /root/.bash_history /root/.config/git/credentials && exit 66'],
      ['temporary', `cat ${temporary} ${lasting}`],
      ['process', `./attack signal ${String(victimPid)}`],
      ['socket', `./attack connect-path ${sockets}/docker.sock`],
      [
        'write',
        'echo x >/etc/squash-x && exit 66; echo x >/usr/squash-x && exit 66; echo x >/opt/squash-x && exit 66',
      ],
      ['mount', './attack mount tmpfs'],
      ['remount', './attack remount /usr'],
      ['core pattern', './attack open-write /proc/sys/kernel/core_pattern'],
      [
        'settings',
        'for f in $(find /proc/sys /proc/irq /proc/bus /proc/sysrq-trigger -type f 2>/dev/null); do case $f in */ns_last_pid) continue ;; esac; ! (exec 3>>"$f") 2>/dev/null || exit 66; done',
      ],
      [
        'memory',
        'for f in kcore kpagecount kpageflags slabinfo vmallocinfo; do ! head -c 8 /proc/$f 2>/dev/null | grep -qa . || exit 66; done',
      ],
      // The host's own nodes: a mode given to one of them would be that of all of the machine.
      [
        'nodes',
        'for f in null zero full random urandom tty; do ! chmod 666 /dev/$f && ! touch /dev/$f || exit 66; done; echo x >/dev/null',
      ],
      ['device', './attack device b 254 0'],
      ['capabilities', './attack capabilities'],
      ['capabilities of a file', `./attack file-capabilities ${written}/x`],
    ];
    const script = rows.map(([name, row]) => `echo "@${name}"; (${row}) 2>&1; echo "code $?"`).join('\n');
    const end = await squash(undefined, ['box', 'run', '--rm', '--rw', written, '--', 'sh', '-c', script], {
      cwd: work,
      env: scene.env,
    });
    assert.equal(end.code, 0, end.stderr);
    const parts = end.stdout.toString('latin1').split('@').slice(1);
    assert.equal(parts.length, rows.length);
    for (const part of parts) {
      assert.doesNotMatch(part, /code 66$|^breach:/m);
      for (const secret of scene.secrets) assert.ok(!part.includes(secret), part);
    }
    for (const bait of baits) assert.equal(readFileSync(join(bait, 'key'), 'utf8'), scene.secret);
    assert.deepEqual(await scene.host.harm(), []);
  });
});
