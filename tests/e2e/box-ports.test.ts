/** Ports of this machine that a box reaches: those that its policy names, of the host's loopback, and nothing else of it. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { BoxPlace } from '../support/box-place.ts';
import { type CliEnd, squash } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';

describe('ports of this machine', () => {
  const stack = new AsyncDisposableStack();
  let place: BoxPlace;
  let scratch: string;
  let work: string;
  let policy: string;
  let env: Record<string, string>;
  let port: number;
  let other: number;

  async function serving(word: string): Promise<number> {
    const server: Server = createServer((socket) => socket.on('error', () => {}).end(`${word}\n`));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    stack.defer(() => void server.close());
    return (server.address() as AddressInfo).port;
  }

  before(async () => {
    place = new BoxPlace('box-ports');
    ({ scratch, work } = place);
    policy = join(scratch, 'policy.toml');
    port = await serving('named');
    other = await serving('unnamed');
    // What a hostile resolver would say.
    writeFileSync(join(scratch, 'hosts'), '127.0.0.1 rebound.example\n');
    env = Object.assign(place.env, { SQUASH_EGRESS_HOSTS: join(scratch, 'hosts') });
  });

  const ended = async (): Promise<void> => await place.ended();

  after(async () => {
    await place[Symbol.asyncDispose]();
    await stack.disposeAsync();
  });

  /** What each place says, or why it says nothing. */
  async function asked(
    rules: string,
    places: readonly string[],
    more: Readonly<Record<string, string>> = {},
  ): Promise<readonly string[]> {
    writeFileSync(policy, `version = 1\n[fs]\n"." = "ro"\n${rules}`);
    const script = places
      .map(
        (place) =>
          `(timeout 10 cat < /dev/tcp/${place}) 2>/dev/null | head -c 300 | grep -m1 -a . || echo none`,
      )
      .join('; ');
    const end: CliEnd = await squash(
      undefined,
      ['box', 'run', '--rm', '--policy', policy, '--', 'bash', '-c', script],
      { cwd: work, env: { ...env, ...more } },
    );
    assert.equal(end.code, 0, end.stderr);
    return end.stdout.toString().trim().split('\n');
  }

  it('are reached where a policy names them, and no other of the loopback', async () => {
    const places = [
      `host.squash.internal/${port}`,
      `host.squash.internal/${other}`,
      `127.0.0.1/${port}`,
      `rebound.example/${port}`,
    ];
    const rules = `[ports]\nhost = [${port}]\n[net]\nallow = ["*", "*.squash.internal", "rebound.example"]\n`;
    assert.deepEqual(await asked(rules, places), ['named', 'none', 'none', 'none']);
    const wide = `[net]\nallow = ["*", "*.squash.internal", "*.internal", "0.0.0.0/0", "rebound.example"]\n`;
    assert.deepEqual(await asked(wide, places), ['none', 'none', 'none', 'none']);
  });

  it('are never those where a daemon of Squash serves its users', async () => {
    await using daemon = await TestDaemon.start();
    const rules = `[ports]\nhost = [${daemon.port}, ${port}]\n`;
    const script = `exec 3<>/dev/tcp/host.squash.internal/${daemon.port} && printf 'GET /v1/info HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3`;
    writeFileSync(policy, `version = 1\n[fs]\n"." = "ro"\n${rules}`);
    const words = ['box', 'run', '--rm', '--policy', policy, '--', 'bash', '-c', script];
    const end = await squash(undefined, words, { cwd: work, env });
    assert.doesNotMatch(end.stdout.toString(), /200 OK|data_dir/);
    assert.match(`${end.stdout.toString()}${end.stderr}`, /daemon_address/);
    assert.deepEqual(await asked(rules, [`host.squash.internal/${port}`]), ['named']);
  });

  it('are not for sandboxes that are no boxes, where boxes have them', async () => {
    await using daemon = await TestDaemon.start({ env: { SQUASH_HOST_PORTS: 'boxes' } });
    const word = `host.squash.internal:${port}`;
    const { json: made } = await daemon.request('POST', '/v1/sandboxes', { policy: { allow: [word] } });
    const path = `/v1/sandboxes/${made.id}/policy/test`;
    const { json, text } = await daemon.request('POST', path, { to: word });
    assert.match(text, /host_not_permitted/);
    assert.equal(json.allowed, false);
  });

  it('are none where the operator says off', async () => {
    await ended();
    const rules = `[ports]\nhost = [${port}]\n`;
    const off = { SQUASH_HOST_PORTS: 'off' };
    assert.deepEqual(await asked(rules, [`host.squash.internal/${port}`], off), ['none']);
    await ended();
  });
});
