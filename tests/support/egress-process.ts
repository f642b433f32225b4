/**
 * A real egress process in a data directory of its own, with a name server and a launcher that the test plays.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type {
  EgressChanged,
  EgressDecisions,
  EgressStats,
  EgressSync,
  EgressSynced,
} from '@squash/contract/egress-protocol';
import { launchProgram, projectDir } from '../../base/src/programs.ts';
import { makeEgressFolders } from '../../host/src/egress/egress-files.ts';
import { NameServer } from './name-server.ts';
import { ScriptedLauncher } from './scripted-relay.ts';
import { waitFor } from './wait.ts';

const main = join(import.meta.dirname, '../../egress/src/main.ts');

export interface Rules {
  readonly policy: unknown;
  readonly secrets?: 'all' | readonly string[];
  readonly ownSecrets?: readonly string[];
  readonly upstream?: string;
}

export class EgressUnderTest implements AsyncDisposable {
  readonly dataDir: string;
  readonly runDir: string;
  readonly names: NameServer;
  readonly launcher: ScriptedLauncher;
  #child: ChildProcess | undefined;

  private constructor(names: NameServer, parent: string) {
    this.dataDir = mkdtempSync(join(parent, 'squash-egress-'));
    this.runDir = join(this.dataDir, 'run');
    mkdirSync(this.runDir);
    makeEgressFolders(this.dataDir);
    this.names = names;
    this.launcher = new ScriptedLauncher(this.runDir);
  }

  /** Started and synchronised. @param parent where its data directory is made */
  static async start(
    sandboxes: Readonly<Record<string, Rules>>,
    parent = tmpdir(),
  ): Promise<EgressUnderTest> {
    const place = new EgressUnderTest(await NameServer.listen(), parent);
    await place.launcher.listen();
    writeFileSync(join(place.dataDir, 'hosts'), '');
    try {
      await place.spawn();
      await place.sync(sandboxes);
      return place;
    } catch (error) {
      await place[Symbol.asyncDispose]();
      throw error;
    }
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  get hostsFile(): string {
    return join(this.dataDir, 'hosts');
  }

  async spawn(): Promise<void> {
    const words = ['--data', this.dataDir, '--run', this.runDir, '--log-level', 'debug'];
    const own = ['--resolvers', this.names.address, '--hosts-file', this.hostsFile];
    const held = ['egress', ...words.slice(0, 4), '--app', projectDir, '--read', this.hostsFile, '--'];
    const command = [
      launchProgram,
      ...held,
      process.execPath,
      '--max-semi-space-size=1',
      main,
      ...words,
      ...own,
    ];
    // A test that is killed disposes of nothing.
    this.#child = spawn('setpriv', ['--pdeathsig', 'SIGKILL', '--', ...command], {
      env: {
        ...process.env,
        NODE_COMPILE_CACHE: join(this.dataDir, 'egress/compile'),
        SQLITE_TMPDIR: join(this.dataDir, 'egress'),
      },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    await waitFor('the API of the egress process', async () => {
      assert.equal(this.#child?.exitCode, null, 'the egress process goes on');
      return (await this.tryStats()) !== undefined;
    });
  }

  async sync(
    sandboxes: Readonly<Record<string, Rules>>,
    changes: Partial<EgressSync> = {},
  ): Promise<EgressSynced> {
    return (await this.ask('PUT', '/sync', {
      ceiling: null,
      allowCidrs: ['127.0.0.0/8', '::1'],
      interceptsTls: true,
      ...changes,
      sandboxes: Object.entries(sandboxes).map(([id, rules]) => ({ id, secrets: 'all', ...rules })),
    })) as EgressSynced;
  }

  /** @returns how many connections were ended @throws where they are refused */
  async put(id: string, rules: Rules): Promise<number> {
    const changes = [{ id, secrets: 'all', ...rules }];
    const { closed, problems } = (await this.ask('PUT', '/sandboxes', changes)) as EgressChanged;
    for (const { message } of problems) throw new Error(message);
    return closed;
  }

  async stats(): Promise<EgressStats> {
    return (await this.ask('GET', '/stats')) as EgressStats;
  }

  async tryStats(): Promise<EgressStats | undefined> {
    if (!existsSync(join(this.runDir, 'egress-api.sock'))) return undefined;
    return await this.stats().catch(() => undefined);
  }

  async decisions(query = ''): Promise<EgressDecisions['decisions']> {
    return ((await this.ask('GET', `/decisions?${query}`)) as EgressDecisions).decisions;
  }

  /** Ends the process by this signal and waits for it. @returns its exit code or signal */
  async end(signal: NodeJS.Signals): Promise<number | string> {
    const child = this.#child;
    assert.ok(child !== undefined);
    child.kill(signal);
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    return child.exitCode ?? child.signalCode ?? '';
  }

  log(): string {
    return readFileSync(join(this.dataDir, 'log/egress.log'), 'utf8');
  }

  /** @throws what the process refuses, with its code in front */
  async ask(method: string, path: string, body?: unknown): Promise<unknown> {
    const outgoing = request({ socketPath: join(this.runDir, 'egress-api.sock'), method, path });
    outgoing.end(body === undefined ? undefined : JSON.stringify(body));
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
    const chunks: Buffer[] = [];
    for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk);
    const answer = JSON.parse(Buffer.concat(chunks).toString('utf8')) as { code?: string; message?: string };
    if (response.statusCode !== 200) throw new Error(`${answer.code}: ${answer.message}`);
    return answer;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child !== undefined) await this.end('SIGKILL');
    await this.launcher[Symbol.asyncDispose]();
    await this.names[Symbol.asyncDispose]();
    rmSync(this.dataDir, { recursive: true });
  }
}
