/**
 * Runs in the guest until its power is cut: clients of the daemon at work, each saying on its standard output what
 * it is about to ask for, and what was answered. The lines leave the guest at once, so what is said was said.
 *
 * `power-load.ts SOCKET ROUND SEED FORMER…`: `FORMER` are sandboxes of earlier rounds, which are removed meanwhile.
 */
import { createHash } from 'node:crypto';
import { writeSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { request } from 'node:http';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as wait } from 'node:timers/promises';
import type { IncomingMessage } from 'node:http';
import { type Random, seeded } from '../faults/random.ts';
import type { PowerEvent, Wanted } from './power-model.ts';

const clients = 3;
const [socketPath = '', round = '', seed = '0', ...former] = process.argv.slice(2);
const dataDir = dirname(dirname(socketPath));

interface Reply {
  readonly status: number;
  readonly text: string;
}

function call(method: string, path: string, body?: unknown): Promise<Reply> {
  const sent = body === undefined ? undefined : JSON.stringify(body);
  const headers = {
    host: 'localhost',
    ...(sent === undefined ? {} : { 'content-type': 'application/json' }),
  };
  const { promise, resolve, reject } = Promise.withResolvers<Reply>();
  const asked = request({ socketPath, method, path, headers }, (response: IncomingMessage) => {
    text(response).then((got) => resolve({ status: response.statusCode ?? 0, text: got }), reject);
  });
  asked.on('error', reject).end(sent);
  return promise;
}

/** In one write, with a line break before it: what stood there is a line that the last cut left unfinished. */
function say(event: PowerEvent): void {
  writeSync(1, `\n${JSON.stringify(event)}\n`);
}

/** Says so before and after. What is refused is a failure of the test: nothing here may be. */
async function ask(wanted: Wanted, sending: readonly [string, string, unknown?]): Promise<void> {
  say({ is: 'wanted', ...wanted });
  const answer = await call(...sending);
  if (answer.status >= 300) {
    say({ is: 'refused', ...wanted, said: `${answer.status} ${answer.text}` });
    return;
  }
  say({ is: 'answered', ...wanted, said: await saidOf(wanted, answer) });
}

/** A snapshot's content is told apart by its digest, a command by its whole record. */
async function saidOf({ op, id, what }: Wanted, answer: Reply): Promise<string> {
  if (op !== 'snapshot') return answer.text;
  const file = await readFile(join(dataDir, 'sandboxes', id, 'snapshots', `${what}.squashfs`));
  return createHash('sha256').update(file).digest('hex');
}

async function operate(id: string, step: number, random: Random): Promise<void> {
  const api = `/cgi-bin/api/sandboxes/${id}`;
  const what = String(step);
  const snapshots = labels.get(id) ?? [];
  const write = `yes ${what} | head -c 30000 >/part.${what} && sync /part.${what} && echo synced ${what}`;
  const kinds = ['write', 'write', 'write', 'job', 'policy', 'snapshot'] as const;
  const picked = random.pick(snapshots.length > 0 ? [...kinds, 'restore' as const] : kinds);
  // There may be 128 secrets, and a long run makes hundreds of sandboxes.
  const second = id.endsWith('-1') ? 'secret' : picked;
  const op = step === 1 ? 'write' : step === 2 ? second : picked;
  switch (op) {
    case 'write':
      return ask({ op, id, what }, ['POST', `${api}/exec`, { cmd: write, timeout: 120 }]);
    case 'job':
      return ask({ op, id, what }, [
        'POST',
        `${api}/exec-bg`,
        { cmd: 'echo begun; sleep 600', timeout: 600 },
      ]);
    case 'policy':
      return ask({ op, id, what }, ['PUT', `/v1/sandboxes/${id}/policy`, { allow: [`${what}.example.com`] }]);
    case 'secret': {
      const secret = { value: `value-of-${id}-${what}`, allowed_hosts: [`${what}.example.com`] };
      return ask({ op, id, what }, ['PUT', `/v1/secrets/KEY_${id.replaceAll('-', '_')}`, secret]);
    }
    case 'snapshot':
      await ask({ op, id, what: `at-${what}` }, ['POST', `${api}/snapshot`, { label: `at-${what}` }]);
      labels.set(id, [...snapshots, `at-${what}`]);
      return;
    case 'restore': {
      const label = random.pick(snapshots);
      return ask({ op, id, what: label }, ['POST', `${api}/restore`, { label }]);
    }
  }
}

const labels = new Map<string, readonly string[]>();

async function client(number: number): Promise<void> {
  const random = seeded(Number(seed) * 100 + number);
  for (let serial = 1; ; serial += 1) {
    const old = former.pop();
    if (old !== undefined)
      await ask({ op: 'destroy', id: old, what: '' }, ['DELETE', `/cgi-bin/api/sandboxes/${old}`]);
    const id = `r${round}-${number}-${serial}`;
    const wanted = { id, layers: '000-base-test', memory_mb: 64 };
    await ask({ op: 'create', id, what: '' }, ['POST', '/cgi-bin/api/sandboxes', wanted]);
    const steps = 1 + random.below(8);
    for (let step = 1; step <= steps; step += 1) await operate(id, step, random);
    // The machine is small: what lives on is one for each client.
    former.push(id);
    await wait(random.below(200));
  }
}

await Promise.all(Array.from({ length: clients }, (_, number) => client(number)));
