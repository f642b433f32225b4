/** One egress process at a time: adopted where it is ours, replaced where it is of another version, never two. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import packageJson from '../../package.json' with { type: 'json' };
import { keptLog } from '../../../tests/support/kept-log.ts';
import { processesOf } from '../../../tests/support/leaks.ts';
import { waitFor } from '../../../tests/support/wait.ts';
import { EgressClient } from './egress-client.ts';
import { startEgress } from './egress-process.ts';
import { EgressSupervisor, stopEgress, type SupervisorOptions } from './supervisor.ts';

const { version } = packageJson;

/** A data directory, and supervisors of its egress process as daemons of several versions would have them. */
class Place implements AsyncDisposable {
  readonly dataDir = mkdtempSync(join(tmpdir(), 'squash-egress-'));
  readonly runDir = join(this.dataDir, 'run');
  readonly #log = keptLog('info');
  readonly lines = this.#log.lines;
  readonly starts: number[] = [];
  readonly #stack = new AsyncDisposableStack();

  constructor() {
    mkdirSync(this.runDir);
    mkdirSync(join(this.dataDir, 'log'));
  }

  client(): EgressClient {
    return this.#stack.use(new EgressClient(this.runDir));
  }

  /** What starts a real process here, and notes it. */
  starting(): SupervisorOptions['start'] {
    const { dataDir, runDir } = this;
    const settings = {
      dataDir,
      runDir,
      build: version,
      egressResolvers: [],
      egressHostsFile: undefined,
      log: { level: 'info' },
    };
    return async () => {
      const started = await startEgress(settings);
      this.starts.push(started.pid);
      return started;
    };
  }

  supervise(wanted: string, changes: Partial<SupervisorOptions> = {}): EgressSupervisor {
    const client = this.client();
    return this.#stack.use(
      new EgressSupervisor({
        client,
        version: wanted,
        start: this.starting(),
        confine: async () => {},
        onUp: async () => {
          await client.sync({ ceiling: null, allowCidrs: [], interceptsTls: false, sandboxes: [] });
        },
        log: this.#log.log,
        ...changes,
      }),
    );
  }

  get pids(): readonly number[] {
    return processesOf(this.dataDir).map(({ pid }) => pid);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const client = this.client();
    await stopEgress(client);
    await this.#stack.disposeAsync();
    await waitFor('the process to end', () => this.pids.length === 0);
    rmSync(this.dataDir, { recursive: true });
  }
}

test('one that was started before is taken in place of a first start, and not a second time', async () => {
  await using place = new Place();
  const started = await place.starting()();
  const waiting = [started];
  await using supervisor = place.supervise(version, { first: { take: () => waiting.pop() } });
  assert.equal(await supervisor.up(), true);
  assert.deepEqual([place.starts, place.pids], [[started.pid], [started.pid]]);
  process.kill(started.pid, 'SIGKILL');
  await waitFor('another process', () => place.starts.length === 2 && supervisor.isUp);
});

test('a first start that is put off waits until somebody wants it, and nobody waits long for one that nobody wants', async () => {
  const first = { take: () => undefined, isPutOff: true };
  for (const ask of [
    (supervisor: EgressSupervisor) => void supervisor.up(),
    (supervisor: EgressSupervisor) => supervisor.wantBehindCommand(),
    () => undefined,
  ]) {
    await using place = new Place();
    await using supervisor = place.supervise(version, { first });
    assert.deepEqual([place.starts, supervisor.isComing, supervisor.isUp], [[], true, false]);
    ask(supervisor);
    await waitFor('it to be up', () => supervisor.isUp);
    assert.deepEqual([place.starts, supervisor.isComing], [place.pids, false]);
  }
  await using place = new Place();
  {
    await using unwanted = place.supervise(version, { first });
    assert.equal(unwanted.isComing, true);
  }
  assert.deepEqual([place.starts, place.pids], [[], []]);
});

test('a sandbox that is made while a process is started waits for none', async () => {
  await using place = new Place();
  const start = place.starting();
  const seen: boolean[] = [];
  const look = (): void => void seen.push(supervisor.isComing);
  await using supervisor = place.supervise(version, {
    start: async () => {
      look();
      return await start();
    },
    confine: async () => look(),
  });
  assert.equal(await supervisor.up(), true);
  process.kill(place.starts[0] ?? 0, 'SIGKILL');
  await waitFor('another process', () => place.starts.length === 2 && supervisor.isUp);
  assert.deepEqual(seen, [true, true, true, true]);
});

test('a process of this version is kept by the next supervisor, one of another version is replaced', async () => {
  await using place = new Place();
  const confined: number[] = [];
  const confine = async (pid: number) => void confined.push(pid);
  {
    await using first = place.supervise(version, { confine });
    assert.equal(await first.up(), true);
  }
  const [first] = place.starts;
  assert.deepEqual(place.pids, [first]);
  {
    await using second = place.supervise(version, { confine });
    assert.equal(second.isUnknown, true, 'nothing is wrong before anybody has looked');
    assert.equal(await second.up(), true);
    assert.equal(second.isUnknown, false);
    assert.deepEqual(place.starts, [first]);
  }
  assert.deepEqual(confined, [first, first], 'the group may be a new one');
  await using upgraded = place.supervise('another version');
  assert.equal(await upgraded.up(), true);
  const [, second] = place.starts;
  assert.deepEqual(place.pids, [second]);
  const said = place.lines.filter((line) => line.includes('egress.replace'));
  assert.equal(said.length, 1);
  assert.match(said[0] ?? '', new RegExp(`"version":"${version}"`));
  assert.equal((await place.client().stats()).synced, true, 'it was told the rules');
});

test('a process of an older version is replaced, whatever its statistics look like', async () => {
  await using place = new Place();
  const asked: string[] = [];
  const older = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    response.end(JSON.stringify({ version: '0.0.1', pid: process.pid, started: 'long ago', uptime: 1 }));
    if (request.url === '/stop') {
      older.close();
      older.closeAllConnections();
    }
  });
  older.listen(join(place.runDir, 'egress-api.sock'));
  await using supervisor = place.supervise(version);
  assert.equal(await supervisor.up(), true);
  assert.ok(asked.includes('POST /stop'), asked.join());
  assert.deepEqual(place.pids, place.starts);
});

test('a process that dies is started again, and one that can not start is tried again', async () => {
  await using place = new Place();
  let refusals = 0;
  const settle = Promise.withResolvers<void>();
  await using supervisor = place.supervise(version, {
    onUp: async () => {
      if (place.starts.length === 2 && refusals === 0) {
        refusals += 1;
        throw new Error('not this time');
      }
      if (place.starts.length === 2) settle.resolve();
    },
  });
  assert.equal(await supervisor.up(), true);
  process.kill(place.starts[0] ?? 0, 'SIGKILL');
  await settle.promise;
  await waitFor('it to be up', () => supervisor.isUp);
  assert.deepEqual(place.pids, [place.starts[1]]);
  assert.ok(place.lines.some((line) => line.includes('egress.gone')));
  assert.ok(place.lines.some((line) => line.includes('not this time')));
});

test('a process that is late is waited for, and no other is started beside it', async () => {
  await using place = new Place();
  await using supervisor = place.supervise(version, { patience: { startMs: 30, waitsMax: 10_000 } });
  assert.equal(await supervisor.up(), false, 'nobody is held up by it');
  await waitFor('it to be up', () => supervisor.isUp);
  assert.equal(place.starts.length, 1);
  assert.ok(place.lines.some((line) => line.includes('egress.late')));
});

test('a process that never answers is ended, and another one started', async () => {
  await using place = new Place();
  const hanging = spawn('/bin/sleep', ['1000']);
  using _end = { [Symbol.dispose]: () => void hanging.kill('SIGKILL') };
  const ended = once(hanging, 'exit').then(([, signal]) => String(signal));
  const starts = place.starting();
  const patience = { startMs: 30, waitsMax: 3 };
  await using supervisor = place.supervise(version, {
    patience,
    start: () => {
      if (hanging.signalCode === null) return Promise.resolve({ pid: hanging.pid ?? 0, ended });
      patience.waitsMax = 10_000;
      return starts();
    },
  });
  await waitFor('it to be up', () => supervisor.isUp);
  assert.equal(await ended, 'SIGKILL');
  assert.equal(place.starts.length, 1);
});

test('a process that stands still is noticed, ended, and another one takes its place', async () => {
  await using place = new Place();
  const supervisor = place.supervise(version, { looks: { lookMs: 100, hungMs: 4_000 } });
  assert.equal(await supervisor.up(), true);
  const [first] = place.pids;
  assert.ok(first !== undefined);
  process.kill(first, 'SIGSTOP');
  await waitFor('it to be noticed', () => !supervisor.isUp);
  await waitFor('another one to be up', () => supervisor.isUp && !place.pids.includes(first), 30_000);
  assert.equal(place.starts.length, 2);
});

test('a process that was only stopped for a moment is up again, and stays', async () => {
  await using place = new Place();
  const supervisor = place.supervise(version, { looks: { lookMs: 100, hungMs: 60_000 } });
  assert.equal(await supervisor.up(), true);
  const [first] = place.pids;
  assert.ok(first !== undefined);
  process.kill(first, 'SIGSTOP');
  await waitFor('it to be noticed', () => !supervisor.isUp);
  process.kill(first, 'SIGCONT');
  await waitFor('it to be up again', () => supervisor.isUp);
  assert.deepEqual(place.pids, [first]);
  assert.equal(place.starts.length, 1);
});

test('a process that nobody can ask for a moment is not ended before its time', async () => {
  await using place = new Place();
  const living = spawn('/bin/sleep', ['1000']);
  using _end = { [Symbol.dispose]: () => void living.kill('SIGKILL') };
  const identity = JSON.stringify({ version, pid: living.pid, started: 'now', uptime: 1 });
  const socket = join(place.runDir, 'egress-api.sock');
  const answering = createServer((_, response) => void response.end(identity)).listen(socket);
  const looks = { lookMs: 100, hungMs: 60_000 };
  const supervisor = place.supervise(version, { looks, onUp: async () => {} });
  assert.equal(await supervisor.up(), true);
  answering.close();
  answering.closeAllConnections();
  await waitFor(
    'looks that find nobody',
    () => place.lines.filter((line) => line.includes('egress.silent')).length >= 24,
  );
  assert.equal(supervisor.isUp, false);
  const again = createServer((_, response) => void response.end(identity)).listen(socket);
  await waitFor('it to be up again', () => supervisor.isUp);
  assert.deepEqual([living.signalCode, place.starts], [null, []]);
  await supervisor[Symbol.asyncDispose]();
  again.close();
  again.closeAllConnections();
});
