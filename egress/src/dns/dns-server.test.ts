/** Whole questions and answers, with a real name server behind and a real policy in front. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { policySchema } from '@squash/contract/policy';
import fc from 'fast-check';
import { addressRecord, NameServer, queryFor, readAnswer } from '../../../tests/support/name-server.ts';
import { keptLog } from '../../../tests/support/kept-log.ts';
import { waitFor } from '../../../tests/support/wait.ts';
import { parseCidr } from '@squash/policy/address/cidr';
import { openEgressDatabase } from '../database.ts';
import { egressLimits } from '../limits.ts';
import { compilePolicy } from '@squash/policy/compile';
import { type DnsClient, DnsServer } from './dns-server.ts';
import { encodeName, recordTypes } from './message.ts';
import { encodeRecord } from './records.ts';
import { Resolver } from './resolver.ts';
import { NameRows, VirtualAddresses } from './virtual-addresses.ts';

const { log } = keptLog('error');

class Place implements AsyncDisposable {
  readonly #stack = new AsyncDisposableStack();
  readonly directory = mkdtempSync(join(tmpdir(), 'squash-dns-'));
  nowMs = 1_000_000;
  readonly rows: NameRows;
  readonly names: NameServer;
  readonly server: DnsServer;
  readonly resolver: Resolver;

  constructor(names: NameServer) {
    this.#stack.defer(() => rmSync(this.directory, { recursive: true }));
    this.names = this.#stack.use(names);
    const database = this.#stack.adopt(
      openEgressDatabase(join(this.directory, 'egress.db'), () => assert.fail('it is new')),
      (one) => one.close(),
    );
    this.rows = new NameRows(database);
    writeFileSync(join(this.directory, 'hosts'), '127.0.1.1 this-host\n10.1.2.3 intra.example.com intra\n');
    this.resolver = new Resolver({
      monoMs: () => this.nowMs,
      servers: [names.address],
      hostsFile: join(this.directory, 'hosts'),
    });
    this.server = new DnsServer({ resolver: this.resolver, nowMs: () => this.nowMs, log });
  }

  client(policy: Record<string, unknown>, id = 'box', leavesNames = false): DnsClient {
    const allowed = parseCidr('10.0.0.0/8');
    return {
      id,
      policy: compilePolicy({
        policy: policySchema.parse(policy),
        ceiling: undefined,
        allowRanges: allowed === undefined ? [] : [allowed],
      }),
      names: new VirtualAddresses(this.rows, id),
      leavesNames,
      lookups: 0,
      recordName: () => undefined,
    };
  }

  async ask(client: DnsClient, name: string, type: number): Promise<ReturnType<typeof readAnswer>> {
    const answer = await this.server.answer(client, queryFor(name, type, 1_232), 'udp');
    assert.ok(answer !== undefined);
    return readAnswer(Buffer.from(answer));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync().then(() => undefined);
  }
}

test('records of other types are passed on for allowed names, and for no others', async () => {
  await using place = new Place(await NameServer.listen());
  const records = [
    encodeRecord('MX', { priority: 10, exchange: 'mail.example.com' }, 60),
    encodeRecord('TXT', ['v=spf1 -all', 'second'], 60),
    encodeRecord('SRV', { priority: 1, weight: 2, port: 443, name: 'a.example.com' }, 60),
    encodeRecord('NS', 'ns.example.com', 60),
    encodeRecord('CAA', { critical: 0, issue: 'ca.example' }, 60),
    encodeRecord(
      'SOA',
      {
        nsname: 'ns.example.com',
        hostmaster: 'root.example.com',
        serial: 4_000_000_000,
        refresh: 1,
        retry: 2,
        expire: 3,
        minttl: 4,
      },
      60,
    ),
  ].filter((record) => record !== undefined);
  assert.equal(records.length, 6);
  place.names.zone.set('example.com', records);
  const client = place.client({ allow: ['example.com'] });
  for (const record of records) {
    const { code, data } = await place.ask(client, 'example.com', record.type);
    assert.deepEqual([code, data.map((one) => [...one])], [0, [[...record.data]]], `type ${record.type}`);
  }
  for (const type of [recordTypes.HTTPS, recordTypes.SVCB, 9_999]) {
    assert.deepEqual((await place.ask(client, 'example.com', type)).data, []);
  }
  const asked = place.names.asked.length;
  assert.deepEqual((await place.ask(client, 'evil.example', recordTypes.TXT)).data, []);
  assert.equal(place.names.asked.length, asked);
});

test('refused names do not exist where the policy wants it so', async () => {
  await using place = new Place(await NameServer.listen());
  const client = place.client({ allow: ['example.com'], dns: 'nxdomain' });
  for (const type of [recordTypes.A, recordTypes.AAAA, recordTypes.TXT]) {
    assert.equal((await place.ask(client, 'evil.example', type)).code, 3);
  }
  assert.deepEqual(place.names.asked, []);
});

test('names of this host alone stay here', async () => {
  await using place = new Place(await NameServer.listen());
  const open = place.client({ allow: ['*'] });
  assert.equal((await place.ask(open, 'this-host', recordTypes.A)).code, 3);
  assert.equal((await place.ask(open, 'intra', recordTypes.A)).code, 0);
  assert.equal((await place.ask(open, 'intra.example.com', recordTypes.A)).code, 0);
  assert.equal((await place.ask(open, 'printer.local', recordTypes.A)).code, 3);
  assert.equal((await place.ask(open, '3.2.1.10.in-addr.arpa', recordTypes.PTR)).code, 3);
  assert.equal((await place.ask(open, '_x.localhost', recordTypes.AAAA)).data[0]?.at(-1), 1);
  assert.deepEqual(place.names.asked, []);
});

test('nothing is asked for where a proxy looks names up, addresses neither', async () => {
  await using place = new Place(await NameServer.listen());
  const open = place.client({ allow: ['*'] }, 'box', true);
  assert.equal((await place.ask(open, 'example.com', recordTypes.A)).data.length, 1);
  assert.deepEqual((await place.ask(open, 'example.com', recordTypes.TXT)).data, []);
  const address = '8.8.8.8.in-addr.arpa';
  assert.equal((await place.ask(open, address, recordTypes.PTR)).code, 3);
  assert.deepEqual((await place.ask(open, address, recordTypes.TXT)).data, []);
  assert.deepEqual(place.names.asked, []);
});

test('a name of one label is asked for where the operator wrote it, and for no sandbox', async () => {
  await using place = new Place(await NameServer.listen());
  place.names.zone.set('proxy', [addressRecord('192.0.2.1', 30)]);
  const found = await place.resolver.operatorAddresses('proxy');
  assert.deepEqual(found.kind === 'addresses' && found.addresses, ['192.0.2.1']);
  const local = await place.resolver.operatorAddresses('localhost');
  assert.deepEqual(local.kind === 'addresses' && local.addresses, ['127.0.0.1', '::1']);
  assert.equal((await place.ask(place.client({ allow: ['*'] }), 'proxy', recordTypes.A)).code, 3);
});

test('an answer is asked for again when its time is over, and equal questions at once are one', async () => {
  await using place = new Place(await NameServer.listen());
  place.names.zone.set('example.com', [addressRecord('192.0.2.1', 30)]);
  const client = place.client({ allow: ['example.com'] });
  await Promise.all(Array.from({ length: 20 }, () => place.ask(client, 'example.com', recordTypes.A)));
  assert.deepEqual(place.names.asked.toSorted(), ['example.com/1', 'example.com/28']);
  place.nowMs += 29_000;
  await place.ask(client, 'example.com', recordTypes.A);
  assert.equal(place.names.asked.length, 2);
  place.nowMs += 2_000;
  await place.ask(client, 'example.com', recordTypes.A);
  assert.equal(place.names.asked.length, 4);
});

test('a sandbox that asks a silent resolver is stopped at its bound, and served again afterwards', async () => {
  await using place = new Place(await NameServer.listen());
  const client = place.client({ allow: ['*.example.com'] });
  const answers: Promise<Uint8Array | undefined>[] = [];
  for (let at = 0; at < egressLimits.sandboxLookupsMax; at += 1) {
    place.names.zone.set(`n${at}.example.com`, 'silence');
    const answer = place.server.answer(client, queryFor(`n${at}.example.com`, recordTypes.A), 'udp');
    assert.ok(answer instanceof Promise);
    answers.push(answer);
    // The name server is in this process, and has to empty its socket.
    if (at % 16 === 15) await nextTurn();
  }
  const { sandboxLookupsAtOnceMax: atOnce } = egressLimits;
  await waitFor('the questions to arrive', () => place.names.asked.length >= 2 * atOnce);
  assert.equal(new Set(place.names.asked).size, 2 * atOnce, 'the others wait for their turn');
  assert.equal(place.server.answer(client, queryFor('more.example.com', recordTypes.A), 'udp'), undefined);
  const other = place.client({ allow: ['*.example.com'] }, 'other');
  place.names.zone.set('other.example.com', [addressRecord('192.0.2.1')]);
  assert.equal((await place.ask(other, 'other.example.com', recordTypes.A)).code, 0);
  assert.equal(new Set(place.names.asked).size, 2 * atOnce + 2, 'it was asked before the first one’s next');
  for (const answer of await Promise.all(answers)) {
    assert.equal(readAnswer(Buffer.from(answer ?? [])).code, 2);
  }
  assert.equal(client.lookups, 0);
});

test('every name keeps its own address, also for the next process', async () => {
  await using place = new Place(await NameServer.listen());
  const names = new VirtualAddresses(place.rows, 'a');
  const label = fc.stringMatching(/^[a-z]{1,8}$/);
  const given = new Map<string, string>();
  fc.assert(
    fc.property(label, fc.boolean(), (host, isRefused) => {
      const address = names.addressFor(host, isRefused, place.nowMs);
      assert.ok(address !== undefined);
      assert.equal(names.hostOf(address), host);
      const before = given.get(host);
      given.set(host, address.join('.'));
      assert.ok(before === undefined || before === address.join('.'));
    }),
    { numRuns: 500 },
  );
  assert.equal(new Set(given.values()).size, given.size);
  const next = new VirtualAddresses(place.rows, 'a');
  for (const [host, address] of given) {
    assert.equal(next.hostOf(Uint8Array.from(address.split('.'), Number)), host);
    assert.equal(next.addressFor(host, false, place.nowMs)?.join('.'), address);
  }
  assert.equal(new VirtualAddresses(place.rows, 'b').hostOf(Uint8Array.of(198, 18, 1, 0)), undefined);
});

test('a flood of refused names takes no address from names that work, and old ones are given again', async () => {
  await using place = new Place(await NameServer.listen());
  const names = new VirtualAddresses(place.rows, 'a');
  const good = names.addressFor('good.example', false, place.nowMs)?.join('.');
  const first = names.addressFor('bad-0.example', true, place.nowMs);
  assert.ok(first !== undefined);
  for (let at = 1; at < egressLimits.sandboxRefusedNamesMax; at += 1) {
    assert.ok(names.addressFor(`bad-${at}.example`, true, place.nowMs) !== undefined);
  }
  assert.equal(names.addressFor('one-more.example', true, place.nowMs), undefined);
  place.nowMs += egressLimits.nameKeepMs;
  assert.deepEqual(names.addressFor('one-more.example', true, place.nowMs), first);
  assert.equal(names.hostOf(first), 'one-more.example');
  assert.equal(names.addressFor('good.example', false, place.nowMs)?.join('.'), good);
});

test('encodeRecord() leaves out what has no wire form', () => {
  assert.equal(encodeRecord('MX', { priority: 1, exchange: 'a'.repeat(64) }, 1), undefined);
  assert.equal(encodeRecord('TXT', ['a'.repeat(256)], 1), undefined);
  assert.equal(encodeName(`${'a.'.repeat(130)}b`), undefined);
});
