/** `squash certificate` with a real authority: obtained, served, renewed while the daemon runs, and what happens where it fails. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import {
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { connect, type TLSSocket } from 'node:tls';
import type { CertificateState } from '@squash/certificate/renew';
import { dnsHook, TestAuthority } from '../support/acme/authority.ts';
import { repository } from '../support/base-layer.ts';
import { type CliEnd, endOf, startCli } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { freePort } from '../support/free-port.ts';
import { expectNoLeaks } from '../support/leaks.ts';
import { ownedPrefix } from '../support/owned-directory.ts';
import { waitFor } from '../support/wait.ts';

const skip = existsSync('/usr/bin/pebble') ? false : 'pebble is not installed';
const domain = 'preview.test';

describe('squash certificate', { skip }, () => {
  let directory: string;
  let dataDir: string;
  let authority: TestAuthority;
  let daemon: TestDaemon | undefined;
  let tlsPort = 0;
  const started: ReturnType<typeof startCli>[] = [];

  before(async () => {
    directory = await mkdtemp(join(tmpdir(), ownedPrefix('certificate')));
    dataDir = join(directory, 'data');
    authority = await TestAuthority.start(join(directory, 'authority'));
  });
  after(async () => {
    // One whose test has failed would wait for its hook for ever.
    for (const child of started) child.kill('SIGTERM');
    await daemon?.[Symbol.asyncDispose]();
    await authority[Symbol.asyncDispose]();
    await expectNoLeaks(directory);
    await rm(directory, { recursive: true });
  });

  function start(words: readonly string[], env: Readonly<Record<string, string>> = {}) {
    const usual = [
      ['--dns-hook', dnsHook],
      ['--directory', authority.directoryUrl],
      ['--ca', authority.caFile],
      ['--dns-wait', '0'],
    ].filter(([flag = '']) => !words.includes(flag));
    const child = startCli(undefined, ['certificate', ...usual.flat(), ...words], {
      env: {
        SQUASH_DATA: dataDir,
        SQUASH_PREVIEW_DOMAIN: domain,
        ...authority.hookEnvironment(),
        ...env,
      },
    });
    started.push(child);
    return child;
  }

  const certificate = async (
    words: readonly string[] = [],
    env: Readonly<Record<string, string>> = {},
  ): Promise<CliEnd> => await endOf(start(words, env));

  async function certificateOk(...words: string[]) {
    const { code, stdout, stderr } = await certificate(['--json', ...words]);
    assert.equal(code, 0, `${stderr}\n${authority.said}`);
    const state = JSON.parse(stdout.toString()) as CertificateState;
    return { ...state, stderr };
  }

  const file = async (name: string): Promise<string> => await readFile(join(dataDir, name), 'utf8');
  const serial = async (): Promise<string> =>
    new X509Certificate(await file('preview-cert.pem')).serialNumber;

  /** As a browser that trusts this authority sees it. */
  async function served(): Promise<string> {
    const socket = connect({
      host: '127.0.0.1',
      port: tlsPort,
      servername: `3000-dev.${domain}`,
      ca: await authority.root(),
    });
    await once(socket, 'secureConnect');
    const { serialNumber } = (socket as TLSSocket).getPeerCertificate();
    socket.destroy();
    return serialNumber;
  }

  it('asks for what it needs, and leaves nothing behind where it does not get it', async () => {
    const bare = await certificate(['--agree-tos'], { SQUASH_PREVIEW_DOMAIN: '' });
    assert.deepEqual([bare.code, /PREVIEW_DOMAIN is not set.*config_invalid/.test(bare.stderr)], [1, true]);
    const plain = await endOf(startCli(undefined, ['certificate'], { env: { SQUASH_DATA: dataDir } }));
    assert.match(plain.stderr, /--dns-hook is missing.*\(usage\)/);
    const terms = await certificate();
    assert.equal(terms.code, 1);
    assert.match(terms.stderr, /no account.*--agree-tos .*agrees to its terms \(.*\(certificate_failed\)/);
    const gone = await certificate(['--agree-tos'], { SQUASH_DATA: '/proc/x' });
    assert.match(gone.stderr, /no directory can be made there.*\(config_invalid\)/);
    const stranger = await endOf(
      startCli(
        undefined,
        ['certificate', '--dns-hook', dnsHook, '--directory', authority.directoryUrl, '--agree-tos'],
        {
          env: { SQUASH_DATA: dataDir, SQUASH_PREVIEW_DOMAIN: domain },
        },
      ),
    );
    assert.match(
      stranger.stderr,
      /was asked for an account.*self-signed certificate.*\(certificate_failed\)/,
    );
    assert.deepEqual(await readdir(dataDir), []);
    assert.deepEqual(await authority.hookCalls(), []);
  });

  it('keeps the account and nothing else where the hook fails, and cleans up behind it', async () => {
    const failed = await certificate(['--agree-tos'], authority.hookEnvironment('fail'));
    assert.equal(failed.code, 1);
    const sentence = `the DNS hook "${dnsHook}" ended with code 3 at "present _acme-challenge.${domain}.": the zone is \\u{1b}[31mlocked`;
    assert.ok(failed.stderr.includes(`${sentence} (dns_hook_failed)`), failed.stderr);
    const calls = await authority.hookCalls();
    assert.deepEqual(
      calls.map((call) => call.replace(/ [\w-]{43}$/, ' VALUE')),
      [`present _acme-challenge.${domain}. VALUE`, `cleanup _acme-challenge.${domain}. VALUE`],
    );
    assert.deepEqual(await authority.recordOf(`_acme-challenge.${domain}`), []);
    assert.deepEqual(await readdir(dataDir), ['preview-acme']);
  });

  it('obtains a wildcard certificate before any daemon was started', async () => {
    const page = await readFile(join(repository, 'docs/ports.md'), 'utf8');
    const [, documented = ''] = /^squash certificate (.*)$/m.exec(page) ?? [];
    const state = await certificateOk(...documented.replace('/etc/squash/dns-hook', dnsHook).split(' '));
    assert.equal(state.renewed, true);
    assert.equal(state.name, `*.${domain}`);
    assert.match(state.stderr, /^certificate: waits for the certificate$/m);
    const leaf = new X509Certificate(await file('preview-cert.pem'));
    assert.equal(leaf.subjectAltName, `DNS:*.${domain}`);
    assert.equal(leaf.publicKey.asymmetricKeyDetails?.namedCurve, 'prime256v1');
    assert.deepEqual(await authority.recordOf(`_acme-challenge.${domain}`), []);
    assert.deepEqual((await readdir(dataDir)).sort(), [
      'preview-acme',
      'preview-cert.key',
      'preview-cert.pem',
    ]);
    const accounts = await readdir(join(dataDir, 'preview-acme'));
    assert.equal(accounts.length, 1);
    for (const name of ['preview-cert.key', 'preview-cert.pem', `preview-acme/${accounts[0]}`])
      assert.equal((await stat(join(dataDir, name))).mode & 0o777, 0o600, name);
  });

  it('is served by the daemon that starts then, to who trusts the authority', async () => {
    tlsPort = await freePort();
    daemon = await TestDaemon.start({
      dataDir,
      env: { SQUASH_PREVIEW_DOMAIN: domain, SQUASH_PREVIEW_TLS_PORT: String(tlsPort) },
    });
    assert.equal(await served(), await serial());
  });

  it('has nothing to do while the certificate lasts', async () => {
    const before = await serial();
    await authority.hookCalls();
    const { code, stdout } = await certificate();
    assert.deepEqual(
      [code, /^Nothing to do: the certificate for \*\.preview\.test, .* days; /.test(stdout.toString())],
      [0, true],
    );
    assert.equal((await certificateOk()).renewed, false);
    assert.deepEqual([await authority.hookCalls(), await serial()], [[], before]);
  });

  it('renews it when few days are left or it is told to, and the running daemon takes each', async () => {
    for (const words of [['--force'], ['--days', '3650']]) {
      const before = await serial();
      assert.equal((await certificateOk(...words)).renewed, true);
      assert.notEqual(await serial(), before);
      await waitFor('the new certificate', async () => (await served()) === (await serial()), 15_000);
    }
    const owner = await stat(dataDir);
    const accounts = join(dataDir, 'preview-acme');
    for (const name of ['preview-cert.key', 'preview-cert.pem'])
      assert.equal((await stat(join(dataDir, name))).uid, owner.uid, name);
    // Where root starts the daemon the account is not the daemon's.
    for (const path of [accounts, join(accounts, (await readdir(accounts))[0] ?? '')])
      assert.equal((await stat(path)).uid, process.getuid?.(), path);
  });

  it('leaves the pair in force where the hook fails, the record is wrong or it is interrupted', async () => {
    const before = [await file('preview-cert.key'), await file('preview-cert.pem')];
    await authority.hookCalls();
    // Of an account that has proved the name before, Pebble asks for no record in one of a hundred orders, whatever it is told.
    const accounts = join(dataDir, 'preview-acme');
    const known = join(directory, 'known-account');
    await rename(accounts, known);
    const failed = await certificate(['--force', '--agree-tos'], authority.hookEnvironment('fail'));
    assert.match(failed.stderr, /ended with code 3.*\(dns_hook_failed\)/);
    const wrong = await certificate(['--force', '--json'], authority.hookEnvironment('wrong'));
    assert.match(wrong.stderr, /"code":"certificate_failed".*did not accept the record: .*TXT/);
    const child = start(['--force'], authority.hookEnvironment('hang'));
    const ended = endOf(child);
    let calls = await authority.hookCalls();
    assert.equal(calls.length, 4);
    calls = await waitFor('the hook', async () => {
      const seen = await authority.hookCalls();
      return seen.length > 0 && seen;
    });
    assert.match(calls[0] ?? '', /^present/);
    child.kill('SIGINT');
    const interrupted = await ended;
    assert.equal(interrupted.code, 1);
    assert.match(interrupted.stderr, /was interrupted at "present.*\(dns_hook_failed\)/);
    assert.match((await authority.hookCalls()).join('\n'), /^cleanup .*$/);
    // One that never answers.
    const silent = createServer();
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    const waiting = start(['--agree-tos', '--force', '--directory', `https://127.0.0.1:${port}/`]);
    const left = endOf(waiting);
    const [socket] = (await once(silent, 'connection')) as [Socket];
    waiting.kill('SIGTERM');
    assert.match((await left).stderr, /interrupted.*\(certificate_failed\)/);
    socket.destroy();
    silent.close();
    assert.deepEqual([await file('preview-cert.key'), await file('preview-cert.pem')], before);
    assert.equal((await readdir(accounts)).length, 1);
    assert.equal(await served(), await serial());
    await rm(accounts, { recursive: true });
    await rename(known, accounts);
  });

  it('follows no link that the daemon could have put into its directory', async () => {
    const accounts = join(dataDir, 'preview-acme');
    const [account = ''] = await readdir(accounts);
    const elsewhere = join(directory, 'elsewhere');
    await rename(accounts, elsewhere);
    await symlink(elsewhere, accounts);
    const beside = await certificate(['--force']);
    assert.match(beside.stderr, /can't use the directory "preview-acme".*\(certificate_failed\)/);
    await rm(accounts);
    await mkdir(accounts);
    await symlink(join(elsewhere, account), join(accounts, account));
    const behind = await certificate(['--force', '--agree-tos']);
    assert.match(behind.stderr, /the account's key "preview-acme\/.*is a link \(certificate_failed\)/);
    await rm(accounts, { recursive: true });
    await rename(elsewhere, accounts);
    await writeFile(join(accounts, 'left.new'), '');
    await mkdir(join(accounts, 'directory.new'));
    for (const name of ['left.new', 'directory.new']) await utimes(join(accounts, name), 0, 0);
    // A file without an end, where the key should be: nothing of it is taken, and another pair takes its place.
    await rm(join(dataDir, 'preview-cert.key'));
    await symlink('/proc/self/pagemap', join(dataDir, 'preview-cert.key'));
    assert.equal((await certificateOk()).renewed, true);
    assert.ok((await lstat(join(dataDir, 'preview-cert.key'))).isFile());
    assert.deepEqual((await readdir(accounts)).toSorted(), [account, 'directory.new'].toSorted());
    await rm(join(accounts, 'directory.new'), { recursive: true });
    await rename(join(dataDir, 'preview-cert.pem'), join(elsewhere));
    await mkdir(join(dataDir, 'preview-cert.pem'));
    assert.match((await certificate(['--force'])).stderr, /preview-cert\.pem": it is a directory/);
    await rm(join(dataDir, 'preview-cert.pem'), { recursive: true });
    await rename(elsewhere, join(dataDir, 'preview-cert.pem'));
  });

  it('leaves a pair that works where it is killed between its two files', async () => {
    const old = await file('preview-cert.pem');
    await certificateOk('--force');
    const renewed = await serial();
    await daemon?.stop();
    await writeFile(join(dataDir, 'preview-cert.pem'), old);
    await daemon?.start();
    assert.equal(await served(), renewed);
    await rm(join(dataDir, 'preview-cert.pem'));
    assert.equal((await certificateOk()).renewed, false);
  });
});

describe('squash certificate at an authority that knows its customers', { skip }, () => {
  it('binds the account to the key that the authority gave', async () => {
    const directory = await mkdtemp(join(tmpdir(), ownedPrefix('certificate')));
    const key = Buffer.alloc(32, 7).toString('base64url');
    await using authority = await TestAuthority.start(join(directory, 'authority'), { kid: 'kid-1', key });
    await writeFile(join(directory, 'eab'), `${key}\n`);
    const words = ['certificate', '--dns-hook', dnsHook, '--dns-wait', '0', '--agree-tos'];
    const usual = ['--directory', authority.directoryUrl, '--ca', authority.caFile];
    const binding = ['--eab-kid', 'kid-1', '--eab-key', join(directory, 'eab')];
    const env = {
      SQUASH_DATA: join(directory, 'data'),
      SQUASH_PREVIEW_DOMAIN: domain,
      ...authority.hookEnvironment(),
    };
    const refused = await endOf(startCli(undefined, [...words, ...usual], { env }));
    assert.match(refused.stderr, /was asked for an account.*binding.*\(certificate_failed\)/i);
    const { code, stdout, stderr } = await endOf(
      startCli(undefined, [...words, ...usual, ...binding], { env }),
    );
    assert.equal(code, 0, `${stderr}\n${authority.said}`);
    assert.match(stdout.toString(), /^New certificate for \*\.preview\.test/);
    await rm(directory, { recursive: true });
  });
});
