/**
 * `@squash/sdk/srt` as a program uses the module of Anthropic's Sandbox Runtime: it wraps commands, starts them with a shell, and is
 * asked about hosts that no list names.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import { type SandboxAskCallback, SandboxManager, type SrtConfig } from '@squash/sdk/srt';
import { type CliEnd, cliEnvironment, endOf } from '../support/cli.ts';
import { removeDataDirectory } from '../support/data-directory.ts';
import { expectNoLeaks, processesOf } from '../support/leaks.ts';
import { addressRecord, NameServer } from '../support/name-server.ts';
import { ownedPrefix } from '../support/owned-directory.ts';
import { waitFor } from '../support/wait.ts';

const askedNames = [1, 2, 3, 4, 5].map((at) => `asked${at}.example`);
const skip = process.getuid?.() === 0 ? 'only an ordinary user has boxes' : false;

describe('@squash/sdk/srt', { skip }, () => {
  let scratch: string;
  let home: string;
  let project: string;
  let env: Record<string, string>;
  let names: NameServer;
  let server: Server;
  let port: number;

  before(async () => {
    names = await NameServer.listen();
    for (const name of ['asked.example', 'denied.example', ...askedNames])
      names.zone.set(name, [addressRecord('127.0.0.1')]);
    server = createServer((socket) => socket.end('reached\n'));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    port = typeof address === 'object' ? (address?.port ?? 0) : 0;
    scratch = mkdtempSync(join(tmpdir(), ownedPrefix('srtmodule')));
    home = mkdtempSync(join(userInfo().homedir, 'squash-srt-module-'));
    project = join(home, 'project');
    mkdirSync(project);
    writeFileSync(join(home, 'notes'), 'notes\n');
    env = {
      ...cliEnvironment(undefined),
      HOME: home,
      SQUASH_BOX_DATA: join(scratch, 'data'),
      SQUASH_DATA: join(scratch, 'none'),
      SQUASH_IDLE_EXIT_S: '2',
      SQUASH_MEMORY_RESERVE_MB: '0',
      SQUASH_EGRESS_ALLOW_CIDRS: '127.0.0.0/8',
      SQUASH_EGRESS_RESOLVERS: names.address,
    };
  });

  beforeEach(async () => await SandboxManager.reset());

  after(async () => {
    await SandboxManager.reset();
    server.close();
    await names[Symbol.asyncDispose]();
    const data = join(scratch, 'data');
    await waitFor('the daemon to end', () => processesOf(data).length === 0, 60_000);
    await expectNoLeaks(data);
    rmSync(home, { recursive: true, force: true });
    await removeDataDirectory(scratch);
  });

  const config = (network: object = {}, filesystem: object = {}): SrtConfig => ({
    network: { allowedDomains: [], deniedDomains: [], ...network },
    filesystem: { denyRead: [], allowWrite: [project], denyWrite: [], ...filesystem },
  });

  const shell = (text: string) =>
    spawn(text, { shell: true, cwd: project, env, stdio: ['pipe', 'pipe', 'pipe'] });
  const run = async (text: string): Promise<CliEnd> => {
    const child = shell(text);
    child.stdin.end();
    return await endOf(child);
  };

  it('wraps commands by the settings, and those of one command', async () => {
    assert.equal(SandboxManager.isSandboxingEnabled(), false);
    assert.equal(SandboxManager.isSupportedPlatform(), true);
    assert.deepEqual(SandboxManager.checkDependencies(), { warnings: [], errors: [] });
    await SandboxManager.initialize(config({}, { denyRead: [join(home, 'notes')] }));
    assert.equal(SandboxManager.isSandboxingEnabled(), true);
    const end = await run(
      await SandboxManager.wrapWithSandbox(`echo "it's" > made; cat made; cat ${home}/notes; exit 3`),
    );
    assert.deepEqual([end.code, end.stdout.toString()], [3, "it's\n"], end.stderr);
    assert.match(end.stderr, /No such file/);
    const custom = await SandboxManager.wrapWithSandbox(`echo $0; cat ${home}/notes; echo x > made`, 'sh', {
      filesystem: { denyRead: [], allowWrite: [] },
    });
    const other = await run(custom);
    assert.equal(other.stdout.toString(), 'sh\nnotes\n', other.stderr);
    assert.match(other.stderr, /Read-only file system/);
    await assert.rejects(
      SandboxManager.wrapWithSandbox('true', undefined, undefined, AbortSignal.abort()),
      /abort/i,
    );
    assert.deepEqual(SandboxManager.getFsReadConfig(), {
      denyOnly: [join(home, 'notes')],
      allowWithinDeny: [],
    });
    assert.deepEqual(SandboxManager.getFsWriteConfig(), { allowOnly: [project], denyWithinAllow: [] });
    assert.deepEqual(SandboxManager.getNetworkRestrictionConfig(), { allowedHosts: [], deniedHosts: [] });
  });

  it('refuses by name what can’t be had', async () => {
    await assert.rejects(SandboxManager.wrapWithSandbox('true'), /initialize comes first/);
    for (const [wrong, pattern] of [
      [config({ filterRequest: () => true }), /network\.filterRequest: a function/],
      [config({ httpProxyPort: 3128 }), /network\.httpProxyPort/],
      [config({ alowedDomains: [] }), /"alowedDomains" in "network" is unknown/],
      [{ network: {} }, /allowedDomains is missing/],
    ] as const)
      await assert.rejects(SandboxManager.initialize(wrong as SrtConfig), pattern);
    await assert.rejects(SandboxManager.initialize(config(), undefined, true), /enableLogMonitor/);
    assert.equal(SandboxManager.isSandboxingEnabled(), false);
    for (const name of ['wrapWithSandboxArgv', 'spawnSandboxed', 'getProxyPort', 'getMitmCA'] as const)
      assert.throws(() => SandboxManager[name](), new RegExp(`${name} is not offered`));
    await SandboxManager.initialize(config());
    await assert.rejects(SandboxManager.initialize(config()), /is initialized/);
    assert.throws(() => SandboxManager.updateConfig(config({ httpProxyPort: 3128 })), /httpProxyPort/);
    assert.deepEqual(SandboxManager.getConfig(), config());
  });

  /** A connection to a name that leads to a server of this test, where it is let. */
  const knock = (host: string): string =>
    `(exec 3<>/dev/tcp/${host}/${port} && timeout 30 head -1 <&3) 2>/dev/null || echo refused`;

  it('asks about hosts that no list names, and takes nothing but true for a yes', async () => {
    const asked: { host: string; port: number | undefined }[] = [];
    const answers: readonly unknown[] = [
      true,
      false,
      { allow: false, reason: 'not today' },
      'yes',
      undefined,
    ];
    const ask: SandboxAskCallback = (params) => {
      asked.push(params);
      return answers[asked.length - 1] as boolean;
    };
    await SandboxManager.initialize(config({ deniedDomains: ['denied.example'] }), ask);
    const hosts = [...askedNames, 'asked2.example', 'denied.example'];
    const end = await run(await SandboxManager.wrapWithSandbox(hosts.map(knock).join('; ')));
    // A host that was refused is not asked about again for half a minute.
    assert.deepEqual(
      asked,
      askedNames.map((host) => ({ host, port })),
    );
    assert.equal(end.stdout.toString(), `reached\n${'refused\n'.repeat(6)}`, end.stderr);
    const store = SandboxManager.getSandboxViolationStore();
    const lines = store.getViolations().map(({ line }) => line);
    for (const host of ['asked3', 'denied'])
      assert.ok(
        lines.some((line) => line.includes(`${host}.example:${port} refused`)),
        lines.join('\n'),
      );
    const [first] = store.getViolations();
    const told = SandboxManager.annotateStderrWithSandboxFailures(first?.command ?? '', 'its own words');
    assert.match(
      told,
      /^its own words\n<sandbox_violations>\n[^<]*asked2\.example[^<]*\n<\/sandbox_violations>$/,
    );
    assert.equal(SandboxManager.annotateStderrWithSandboxFailures('another', 'words'), 'words');
  });

  it('asks nobody where the list is strict, and changes the network of what runs', async () => {
    let count = 0;
    await SandboxManager.initialize(config({ strictAllowlist: true }), () => {
      count += 1;
      return true;
    });
    const until = knock('asked.example').replace('|| echo refused', '');
    const script = `${knock('asked.example')}; read line; until ${until}; do sleep 0.05; done`;
    const child = shell(await SandboxManager.wrapWithSandbox(script));
    const end = endOf(child);
    await new Promise((resolve) => child.stdout.once('data', resolve));
    SandboxManager.updateConfig(config({ strictAllowlist: true, allowedDomains: ['asked.example'] }));
    child.stdin.end('go\n');
    const { code, stderr } = await end;
    assert.equal(code, 0, stderr);
    assert.equal(count, 0);
  });

  it('leaves no socket behind', async () => {
    await SandboxManager.initialize(config());
    const before = readdirSync(tmpdir()).filter((name) => name.startsWith('squash-srt-'));
    assert.ok(before.length > 0);
    await SandboxManager.wrapWithSandbox('true');
    SandboxManager.cleanupAfterCommand();
    await SandboxManager.reset();
    const program = `import { SandboxManager } from '@squash/sdk/srt'; await SandboxManager.initialize(${JSON.stringify(config())});`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
      cwd: import.meta.dirname,
    });
    assert.equal((await endOf(child)).code, 0);
    const left = readdirSync(tmpdir()).filter(
      (name) => name.startsWith('squash-srt-') && !before.includes(name),
    );
    assert.deepEqual(left, []);
  });
});
