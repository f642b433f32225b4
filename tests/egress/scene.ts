/**
 * Where attempts are made: a world, a sandbox that is attacked from within, one that is open, one whose secret may go
 * everywhere, a neighbour, and the places outside that prove what an attempt can do where nothing is in its way.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import type { Attempt, Outcome } from './attempt.ts';
import { outcomeOf } from './attempt.ts';
import { patience } from '../support/wait.ts';
import { secretValues, strict, wide } from './secrets.ts';
import { places } from './world/places.ts';
import { World } from './world/world.ts';

const surfaces = ['headers', 'query', 'path', 'body'] as const;
const tools = join(import.meta.dirname, 'tools');
/** Longer than the slowest attempt, which waits for a name to change its meaning. */
const attemptMsMax = 40_000;

/** Where nothing stands in the way nothing comes late: see `attack.py`. */
const unhindered = { SILENCE: '0.7' };

type Place = 'attacked' | Exclude<Attempt['control'], object>;

export class Scene implements AsyncDisposable {
  readonly world: World;

  private constructor(world: World) {
    this.world = world;
  }

  static async start(): Promise<Scene> {
    const world = await World.start({
      secrets: {
        STRICT: {
          ...strict,
          allowed_hosts: [
            'secret.allowed.test',
            'secret.allowed.test:80',
            'secret-private.allowed.test',
            'bad-cert.allowed.test',
            'ported-secret.allowed.test:80',
          ],
        },
        WIDE: {
          ...wide,
          allowed_hosts: ['secret.allowed.test', 'evil.test', '*.evil.test'],
          surfaces: [...surfaces],
        },
      },
    });
    const scene = new Scene(world);
    try {
      await scene.#people();
      return scene;
    } catch (error) {
      await scene[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #people(): Promise<void> {
    const rules = { to: ['rules.test'], methods: ['GET'], paths: ['/public/'] };
    await this.world.create('attacked', {
      policy: {
        allow: ['*.allowed.test', 'good.cdn.test', 'ported.test:443', rules],
        deny: ['denied.allowed.test'],
      },
      secrets: ['STRICT'],
    });
    // What is not public is named kind by kind, and the host by its own number.
    const { metadata, metadata6, own } = places;
    const kinds = ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', '169.254.0.0/16'];
    const kinds6 = ['fc00::/7', '2001::/32', '2002::/16'];
    const everything = { allow: ['*', ...kinds, ...kinds6, metadata, metadata6, own] };
    await this.world.create('open', { policy: everything, secrets: [] });
    await this.world.create('wide', { policy: everything, secrets: ['WIDE'] });
    await this.world.create('neighbour', { allow_net: ['only.evil.test'], secrets: [] });
    await this.world.output('neighbour', 'getent ahosts only.evil.test');
  }

  /** Makes the attempt at a place, and says what came of it. */
  async attempt(attempt: Attempt, place: Place): Promise<Outcome> {
    await this.world.resetNames();
    const mark = await this.world.mark();
    const output = await this.#run(attempt, place);
    const events = await this.world.since(mark);
    const outcome = outcomeOf(attempt, { output, events, values: secretValues });
    const saw = `${output}\n${events.map((event) => JSON.stringify(event)).join('\n')}`;
    return { ...outcome, why: `${outcome.why}\n${attempt.script}\n${saw}` };
  }

  /** The daemon answers, and the attacked sandbox still reaches what it may. */
  async expectUnharmed(): Promise<void> {
    await this.world.output(
      'attacked',
      `curl -sS --fail --max-time ${20 * patience} https://www.allowed.test/hello`,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.world[Symbol.asyncDispose]();
  }

  async #run(attempt: Attempt, place: Place): Promise<string> {
    if (place === 'machine' || place === 'namespace') return await this.#runOutside(attempt, place);
    const isWide = place === 'wide';
    const key = isWide ? wide.placeholder : strict.placeholder;
    const known = place === 'open' && attempt.class === 'reflection' ? strict.value : key;
    const words = {
      ...this.#words('/opt/tools'),
      KEY: known,
      OTHER: wide.placeholder,
      ...(place !== 'attacked' && unhindered),
    };
    const { stdout, stderr } = await this.world.exec(
      place,
      `${assignments(words)}\n${attempt.script}`,
      attemptMsMax / 1_000,
    );
    return stdout + stderr;
  }

  async #runOutside(attempt: Attempt, place: 'machine' | 'namespace'): Promise<string> {
    const script = `${assignments({ ...this.#words(tools), KEY: strict.value, OTHER: wide.value, ...unhindered })}\n${attempt.script}`;
    const words =
      place === 'machine'
        ? ['nsenter', `--target=${this.world.pid}`, '--net', '--mount', '--', 'sh', '-c', script]
        : ['unshare', '--net', '--', 'sh', '-c', `ip link set lo up\n${script}`];
    const [program = '', ...rest] = words;
    return await new Promise((resolve) => {
      execFile(program, rest, { timeout: attemptMsMax, killSignal: 'SIGKILL' }, (_error, stdout, stderr) =>
        // An attempt may fail or be ended; what it did meanwhile is what counts.
        resolve(stdout + stderr),
      );
    });
  }

  #words(toolFolder: string): Record<string, string> {
    return {
      T: toolFolder,
      RUN: join(this.world.daemon.dataDir, 'run'),
      API_PORT: `${this.world.daemon.port}`,
    };
  }
}

function assignments(values: Readonly<Record<string, string>>): string {
  return Object.entries(values)
    .map(([name, value]) => `${name}='${value}'; export ${name}`)
    .join('\n');
}
