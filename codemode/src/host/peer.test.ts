/** A worker that has been taken over: what it says is held against the schema, the run's number and the run's state. */
import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import { PooledExecutor } from '../executor.ts';
import { defaultLimits, type Limits } from '../limits.ts';
import type { Exit, Place } from '../places/place.ts';
import { encodeFrame, FrameReader } from '../protocol/framing.ts';
import { catalogOf, toolTreeOf } from '../tools/catalog.ts';
import type { Approval, ExecutionEvent } from '../types.ts';
import { waitFor } from '../../../tests/support/wait.ts';

type Speak = (say: (frame: object | Buffer) => void, nonce: string, input: PassThrough) => void;

/** A process in memory that answers a run with whatever the test has it say. */
function hostile(speak: Speak, onStart: (input: PassThrough) => void = () => {}): Place {
  return {
    start: async () => {
      const input = new PassThrough();
      onStart(input);
      const output = new PassThrough();
      const exited = Promise.withResolvers<Exit>();
      const say = (frame: object | Buffer) =>
        output.write(Buffer.isBuffer(frame) ? frame : encodeFrame(frame));
      const reader = new FrameReader();
      input.on('data', (bytes: Buffer) => {
        for (const frame of reader.push(bytes) as readonly {
          readonly t: string;
          readonly nonce?: string;
        }[]) {
          if (frame.t === 'hello') say({ t: 'ready', v: 1, engine: 'hostile' });
          if (frame.t === 'run') speak(say, frame.nonce ?? '', input);
        }
      });
      return {
        input,
        output,
        kill: () => exited.resolve({ code: null, signal: 'SIGKILL', outOfMemory: false }),
        exited: exited.promise,
        diagnostics: () => '',
        cpuMs: () => undefined,
        limitMemory: async () => {},
        hold: () => {},
      };
    },
  };
}

function optionsOf(limits: Limits) {
  return {
    name: 'hostile',
    engine: 'quickjs',
    limits,
    logStyle: 'bridge',
    memoryMb: 64,
    spares: 0,
    workersMax: 1,
    runsPerWorker: 1,
    startMsMax: 1000,
  } as const;
}

async function runWith(speak: Speak) {
  const limits = { ...defaultLimits, wallMs: 300, logBytes: 1000, toolCalls: 5 };
  await using executor = new PooledExecutor(hostile(speak), optionsOf(limits));
  const called: unknown[] = [];
  // Where a run may be saved no frame is longer for that, before it is to be.
  const approve = (): Approval => ({ decision: 'deny' });
  const result = await executor.execute('return 1', { f: (x: unknown) => called.push(x) }, { approve });
  return { result, called };
}

const done = (nonce: string, text: string) => ({ t: 'done', nonce, ok: true, text, dropped: 0 });

it('Run drops frames with another run’s number, and everything after the end', async () => {
  const { result, called } = await runWith((say, nonce) => {
    say(done('0'.repeat(32), '["FORGED"]'));
    say({ t: 'call', nonce: 'guess', call: 1, tool: 0, text: '[["a"]]' });
    say(done(nonce, '["real"]'));
    say(done(nonce, '["again"]'));
    say({ t: 'call', nonce, call: 1, tool: 0, text: '[["a"]]' });
    say({ t: 'log', nonce, level: 'log', text: 'late' });
  });
  assert.deepEqual([result.result, result.logs, called], ['real', undefined, []]);
});

const broken: readonly (readonly [string, Speak, RegExp])[] = [
  ['an unknown frame', (say) => say({ t: 'own-the-host' }), /crash/],
  ['a frame with a key too many', (say, nonce) => say({ ...done(nonce, '[1]'), extra: 1 }), /crash/],
  ['bytes that are no JSON', (say) => say(Buffer.from([0, 0, 0, 1, 0x7b])), /crash/],
  ['a frame that claims gigabytes', (say) => say(Buffer.from([0xff, 0xff, 0xff, 0xff])), /crash/],
  ['a result that is no value', (say, nonce) => say(done(nonce, '[["r",5]]')), /crash/],
  ['a result that refers to itself for ever', (say, nonce) => say(done(nonce, '[["j",["r",0]]]')), /crash/],
  [
    'a tool that does not exist',
    (say, nonce) => say({ t: 'call', nonce, call: 1, tool: 99, text: '[["a"]]' }),
    /tool-limit/,
  ],
  [
    'arguments that are no list',
    (say, nonce) => say({ t: 'call', nonce, call: 1, tool: 0, text: '["x"]' }),
    /tool-limit/,
  ],
  [
    'arguments whose length is only claimed',
    (say, nonce) => say({ t: 'call', nonce, call: 1, tool: 0, text: '[["h",4294967295]]' }),
    /tool-limit/,
  ],
  [
    'another call under a number that a person may say yes to',
    (say, nonce) =>
      ['shown', 'meant'].map((x) =>
        say({ t: 'call', nonce, call: 1, tool: 0, text: JSON.stringify([['a', x]]) }),
      ),
    /tool-limit/,
  ],
  [
    'calls without end',
    (say, nonce) =>
      Array.from({ length: 9 }, (_, call) =>
        say({ t: 'call', nonce, call: call + 1, tool: 0, text: '[["a"]]' }),
      ),
    /tool-limit/,
  ],
  [
    'a log without end',
    (say, nonce) =>
      Array.from({ length: 9 }, () => say({ t: 'log', nonce, level: 'log', text: 'x'.repeat(500) })),
    /log-limit/,
  ],
  [
    'a frame longer than its limits allow',
    (say, nonce) => say({ t: 'log', nonce, level: 'log', text: 'x'.repeat(12_000_000) }),
    /crash/,
  ],
  ['a snapshot nobody asked for', (say, nonce) => say({ t: 'snapshot', nonce, bytes: 'AAAA' }), /timeout/],
  ['nothing', () => {}, /timeout/],
];
for (const [what, speak, kind] of broken) {
  it(`Run ends with ${kind.source} when the worker sends ${what}`, async () => {
    const { result } = await runWith(speak);
    assert.match(result.errorInfo?.kind ?? '', kind);
    assert.equal(result.result, undefined);
  });
}

const ready = { t: 'ready', v: 1, engine: 'hostile' };
for (const [what, frame] of [
  ['a line for a log', { t: 'log', nonce: '', level: 'log', text: 'x' }],
  ['that it is ready, again', ready],
] as const) {
  it(`Peer ends a worker that says ${what}, between its runs`, async () => {
    const late = Promise.withResolvers<() => void>();
    const speak: Speak = (say, nonce) => {
      say(done(nonce, '[1]'));
      say(ready);
      late.resolve(() => say(frame));
    };
    const options = { ...optionsOf(defaultLimits), runsPerWorker: 2, spares: 1 };
    await using executor = new PooledExecutor(hostile(speak), options);
    assert.equal((await executor.execute('return 1')).result, 1);
    await pause(100);
    assert.equal(executor.processes, 1);
    (await late.promise)();
    // It would serve one more, and is replaced instead.
    await waitFor('the worker to end', () => executor.processes === 0);
  });
}

it('Run keeps a few of the rejections a worker tells of, however many they are', async () => {
  const { result } = await runWith((say, nonce) => {
    for (let at = 0; at < 5000; at += 1) say({ t: 'unhandled', nonce, text: 'x'.repeat(1000) });
    say(done(nonce, '[1]'));
  });
  assert.deepEqual([result.result, result.warnings?.length], [1, 3]);
});

it('Run ends with tool-limit when calls that wait hold more than may run twice over', async () => {
  const limits = { ...defaultLimits, wallMs: 5000, argBytes: 1000, toolConcurrency: 2 };
  const speak: Speak = (say, nonce) => {
    for (let call = 1; call <= 8; call += 1)
      say({ t: 'call', nonce, call, tool: 0, text: JSON.stringify([['a'], 'x'.repeat(900)]) });
  };
  await using executor = new PooledExecutor(hostile(speak), optionsOf(limits));
  const never = () => new Promise(() => {});
  const { errorInfo } = await executor.execute('return 1', { never }, { codec: 'json' });
  assert.deepEqual(
    [errorInfo?.kind, errorInfo?.message],
    ['tool-limit', 'more than 4000 bytes of arguments in calls that wait for their answers'],
  );
});

it('Broker starts no further tool while a worker does not read the answers', async () => {
  const limits = { ...defaultLimits, wallMs: 1000, toolResultBytes: 200_000, toolConcurrency: 2 };
  const speak: Speak = (say, nonce, input) => {
    input.pause();
    for (let call = 1; call <= 100; call += 1) say({ t: 'call', nonce, call, tool: 0, text: '[["a"]]' });
  };
  let started = 0;
  const big = () => {
    started += 1;
    return 'x'.repeat(150_000);
  };
  await using executor = new PooledExecutor(hostile(speak), optionsOf(limits));
  const { errorInfo } = await executor.execute('return 1', { big });
  assert.equal(errorInfo?.kind, 'timeout');
  assert.ok(started >= 2 && started <= 6, `${started} started`);
});

it('Broker goes on when the worker reads its answers after all', async () => {
  const limits = { ...defaultLimits, wallMs: 20_000, toolResultBytes: 200_000, toolConcurrency: 2 };
  const speak: Speak = (say, nonce, input) => {
    input.pause();
    for (let call = 1; call <= 20; call += 1) say({ t: 'call', nonce, call, tool: 0, text: '[["a"]]' });
  };
  let started = 0;
  const reads = Promise.withResolvers<void>();
  const place = hostile(speak, (input) => void reads.promise.then(() => input.resume()));
  const tools = {
    big() {
      started += 1;
      if (started === 2) reads.resolve();
      if (started === 20) stop.abort();
      return 'x'.repeat(150_000);
    },
  };
  const stop = new AbortController();
  await using executor = new PooledExecutor(place, optionsOf(limits));
  const { errorInfo } = await executor.execute('return 1', tools, { signal: stop.signal });
  assert.deepEqual([errorInfo?.kind, started], ['aborted', 20]);
});

/** Some kilobytes that are a thousand million values to whoever walks them. */
const thousand = (value: unknown) => ['a', ...Array.from({ length: 1000 }, () => value)];
const shared = [thousand(['r', 3]), thousand(['r', 4]), thousand(1)];
const expansive = JSON.stringify([['a', ['r', 1]], ['o', 'x', ['r', 2]], ...shared]);
const checkedTool = () => toolTreeOf(catalogOf({ f: { inputSchema: z.object({}), execute: () => 1 } }));

it('Run ends with cpu when its values have taken this program as long as they may', async () => {
  const limits = { ...defaultLimits, wallMs: 60_000, cpuMs: 100 };
  const speak: Speak = (say, nonce) => {
    for (let call = 1; call <= 1000; call += 1) say({ t: 'call', nonce, call, tool: 0, text: expansive });
  };
  await using executor = new PooledExecutor(hostile(speak), optionsOf(limits));
  let settled = 0;
  const onEvent = ({ type }: ExecutionEvent) => void (settled += type === 'tool-result' ? 1 : 0);
  const { errorInfo } = await executor.execute('return 1', checkedTool(), { onEvent });
  assert.deepEqual(
    [errorInfo?.kind, errorInfo?.message],
    ['cpu', "CPU time limit exceeded (500ms to read and write the code's values)"],
  );
  assert.ok(settled < 500, `${settled} settled`);
});

it('Broker leaves the others a turn between calls that take long', async () => {
  const calls = 20;
  const stop = new AbortController();
  const speak: Speak = (say, nonce) => {
    for (let call = 1; call <= calls; call += 1) say({ t: 'call', nonce, call, tool: 0, text: expansive });
  };
  await using executor = new PooledExecutor(hostile(speak), optionsOf({ ...defaultLimits, cpuMs: 60_000 }));
  let turn = 0;
  const count = () => {
    turn += 1;
    if (!stop.signal.aborted) setImmediate(count);
  };
  setImmediate(count);
  const settledIn: number[] = [];
  const onEvent = ({ type }: ExecutionEvent) => {
    if (type === 'tool-result') settledIn.push(turn);
    if (settledIn.length === calls) stop.abort();
  };
  await executor.execute('return 1', checkedTool(), { onEvent, signal: stop.signal });
  assert.equal(settledIn.length, calls);
  assert.ok(new Set(settledIn).size > calls / 2, `${calls} calls in ${new Set(settledIn).size} turns`);
});

it('Peer leaves the others a turn between frames that take long, and loses none', async () => {
  const frames = 30;
  const limits = { ...defaultLimits, wallMs: 20_000 };
  const speak: Speak = (say, nonce) => {
    const all = Array.from({ length: frames }, () =>
      encodeFrame({ t: 'log', nonce, level: 'log', text: 'x' }),
    );
    say(Buffer.concat([...all, encodeFrame(done(nonce, '[1]'))]));
  };
  await using executor = new PooledExecutor(hostile(speak), optionsOf(limits));
  let turn = 0;
  const loop = setInterval(() => (turn += 1), 0);
  const heardIn: number[] = [];
  const onEvent = ({ type }: ExecutionEvent) => {
    if (type !== 'log') return;
    heardIn.push(turn);
    const began = performance.now();
    while (performance.now() - began < 12);
  };
  const { result } = await executor.execute('return 1', {}, { onEvent });
  clearInterval(loop);
  assert.deepEqual([result, heardIn.length], [1, frames]);
  assert.ok(new Set(heardIn).size > frames / 2, `${frames} frames in ${new Set(heardIn).size} turns`);
});
