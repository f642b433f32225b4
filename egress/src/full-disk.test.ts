/**
 * The disk of `egress.db` is full: what is known goes on, what would have to be remembered is refused, rules change as ever,
 * nothing is open that was not, and all is as before when there is room.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { EgressUnderTest } from '../../tests/support/egress-process.ts';
import { addressRecord, queryFor, readAnswer } from '../../tests/support/name-server.ts';
import type { Program, ScriptedRelay } from '../../tests/support/scripted-relay.ts';
import { needsRoot, type SmallDisk, smallDisk } from '../../tests/support/small-disk.ts';
import { waitFor } from '../../tests/support/wait.ts';

const megabyte = 1_048_576;
const typeA = 1;
const serverFailure = 2;
/** EX_IOERR of sysexits.h. */
const exitInputOutput = 74;
/** Above it what was not written before can not be written now: SQLite's log has some pages left to write over. */
const namesMax = 20_000;
const resetByUs = 3;
const rules = { policy: { allow: ['known.example.com', '*.new.example.com'] } };
const other = { policy: { allow: ['other.example.com'] } };

const stack = new AsyncDisposableStack();
let disk: SmallDisk;
let egress: EgressUnderTest;
let relay: ScriptedRelay;
let port = 0;
let known = '';
let refused = '';
let tunnel: Program;
let instance = 0;

async function ask(name: string): Promise<{ readonly code: number; readonly address: string }> {
  const { code, data } = readAnswer(await relay.ask(queryFor(name, typeA)));
  return { code, address: data[0]?.join('.') ?? '' };
}

async function join(...sandboxes: readonly string[]): Promise<void> {
  await egress.sync(Object.fromEntries(sandboxes.map((id) => [id, rules])));
  relay = await egress.launcher.relay((instance += 1), 'box');
  await waitFor('the launcher', async () => (await egress.stats()).launcher);
}

async function restart(...sandboxes: readonly string[]): Promise<void> {
  await egress.end('SIGKILL');
  await egress.spawn();
  await join(...sandboxes);
}

function say(address: string): Program {
  const program = relay.open(address, port);
  program.write('PING\r\n');
  return program;
}

before(async () => {
  if (needsRoot !== false) return;
  const server = createServer((socket) => void socket.on('error', () => undefined).pipe(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  stack.defer(() => void server.close());
  ({ port } = server.address() as { readonly port: number });
  disk = stack.use(smallDisk(32 * megabyte));
  egress = stack.use(await EgressUnderTest.start({ box: rules, gone: rules }, disk.path));
  egress.names.zone.set('known.example.com', [addressRecord('127.0.0.1')]);
  egress.names.zone.set('x.new.example.com', [addressRecord('127.0.0.1')]);
  await join('box', 'gone');
  ({ address: known } = await ask('known.example.com'));
  ({ address: refused } = await ask('evil.example.com'));
  tunnel = say(known);
  await tunnel.read('PING');
  disk.fill();
});

after(() => stack.disposeAsync());

describe('a full disk', { skip: needsRoot }, () => {
  test('takes away new names, and says so', async () => {
    let code = 0;
    for (let at = 0; at < namesMax && code === 0; at += 1) ({ code } = await ask(`n${at}.evil.example.com`));
    assert.equal(code, serverFailure);
    assert.match(egress.log(), /dns\.fault.*full/);
    assert.deepEqual(await ask('known.example.com'), { code: 0, address: known });
  });

  test('leaves open tunnels as they are, also for the next process', async () => {
    tunnel.write('PONG');
    await tunnel.read('PONG');
    const before = relay;
    await restart('box', 'gone');
    await egress.launcher.reconnect(before);
    tunnel.write('PUNG');
    await tunnel.read('PUNG');
  });

  test('opens no tunnel that nobody could remember, and none to a name that is refused', async () => {
    for (const address of [known, refused]) {
      const program = say(address);
      assert.equal(await program.closed(), resetByUs);
      assert.equal(program.received.length, 0);
    }
  });

  test('counts the decisions that are lost', async () => {
    await waitFor('a lost decision', async () => (await egress.stats()).decisions.dropped > 0);
  });

  test('keeps no change of the rules from holding', async () => {
    assert.equal(await egress.put('box', { policy: { allow: ['none'] } }), 1);
    assert.equal(await tunnel.closed(), resetByUs);
    assert.equal(await say(known).closed(), resetByUs);
    await egress.put('box', rules);
    await egress.ask('DELETE', '/sandboxes/gone');
  });

  test('keeps no next process from starting with what the last one knew', async () => {
    // It has rows of a sandbox that there is no more, and can not remove them.
    await restart('box');
    assert.deepEqual(await ask('known.example.com'), { code: 0, address: known });
    assert.equal(await say(known).closed(), resetByUs);
    assert.doesNotMatch(egress.log(), /database\.replaced/);
  });

  test('is told by a process that can not begin for it', async () => {
    const directory = `${disk.path}/new`;
    mkdirSync(directory);
    const main = new URL('main.ts', import.meta.url).pathname;
    const { status, stderr } = spawnSync(process.execPath, [main, '--data', directory], { encoding: 'utf8' });
    assert.match(stderr, /squash egress: .*no space left/);
    assert.equal(status, exitInputOutput);
    assert.ok(!readdirSync(directory).some((name) => name.includes('broken')));
  });

  test('is forgotten when there is room', async () => {
    disk.free();
    const { code, address } = await ask('x.new.example.com');
    assert.equal(code, 0);
    for (const each of [known, address]) {
      const program = say(each);
      await program.read('PING');
      program.reset();
    }
    assert.equal(await say(refused).closed(), resetByUs);
    const rows = await egress.decisions('sandbox=box&kind=connection&verdict=allowed');
    assert.ok(rows.some(({ host }) => host === 'x.new.example.com'));
    await egress.sync({ box: other });
    assert.deepEqual(await egress.decisions('sandbox=gone'), []);
  });
});
