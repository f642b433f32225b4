/**
 * One large file up and down, each with the field's own client: `curl` for Squash, `cp` for the same disk without anybody between,
 * `scp` for the same bytes through one process more on either side. Where bytes are held back memory shows it.
 */
import { once } from 'node:events';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { pssBytes } from '../measure/proc-memory.ts';
import { mustRun, timed } from '../measure/process.ts';
import type { Sample, Scenario, Subject } from '../measure/scenario.ts';
import { freePort, type SquashUnderTest } from '../squash/daemon.ts';
import { waitFor } from '../../tests/support/wait.ts';
import { type Context, squashSubjects } from './context.ts';

const mib = 1_048_576;
const sshd = '/usr/sbin/sshd';

interface Files {
  readonly directory: string;
  readonly source: string;
  readonly megabytes: number;
}

export async function transferScenario(context: Context, stack: AsyncDisposableStack): Promise<Scenario> {
  const megabytes = context.quick ? 64 : 5_120;
  const directory = join(context.workDir, 'transfer');
  await mkdir(directory);
  const files = { directory, megabytes, source: join(directory, 'source') };
  await mustRun([
    'dd',
    'if=/dev/urandom',
    `of=${files.source}`,
    'bs=1M',
    `count=${megabytes}`,
    'status=none',
  ]);
  return {
    id: 'transfer',
    title: `A file of ${megabytes} MB, up and down`,
    about:
      'Random bytes, from and to files on the same disk as the sandbox; up counts until they are synced there, down until they are synced here. "memory" is by how much the daemon grew at most, looked at five times a second.',
    metrics: [
      { id: 'up', title: 'up', unit: 'MB/s' },
      { id: 'down', title: 'down', unit: 'MB/s' },
      { id: 'memory', title: 'memory while it passes', unit: 'MB' },
    ],
    warmups: 0,
    rounds: 1,
    subjects: [
      ...(await squashSubjects(context, async (squash) => [await throughSquash(squash, files, stack)])),
      byCopy(files),
      await byScp(files, stack),
    ],
  };
}

async function throughSquash(
  squash: SquashUnderTest,
  files: Files,
  stack: AsyncDisposableStack,
): Promise<Subject> {
  const { client, env } = squash;
  const id = await squash.createOnStack(stack);
  const { directory, source, megabytes } = files;
  // A sandbox's own files are held below that; where nobody may bound a volume it takes what the disk has.
  const size = process.geteuid?.() === 0 ? { size_mb: megabytes + 512 } : {};
  const made = await client.send('POST', '/v1/volumes', { name: `bench-${id}`, ...size });
  if (made.status !== 201) return { name: 'Squash, curl', absent: made.body.slice(0, 200) };
  await client.send('POST', `/v1/sandboxes/${id}/mounts`, { volume: `bench-${id}`, path: '/data' });
  const url = `http://127.0.0.1:${env['SQUASH_PORT']}/v1/sandboxes/${id}/files?path=/data/big`;
  const out = join(directory, 'from-squash');
  const header = 'content-type: application/octet-stream';
  return {
    name: 'Squash, curl',
    cycle: async () => {
      using peak = new Peak(squash.daemonPid);
      const up = await timed(async () => {
        await mustRun(['curl', '-sf', '-X', 'PUT', '-H', header, '-T', source, url]);
        await client.exec(id, 'sync /data/big');
      });
      const down = await timed(async () => {
        await mustRun(['curl', '-sf', '-o', out, url]);
        await mustRun(['sync', out]);
      });
      await mustRun(['cmp', source, out]);
      await rm(out);
      await client.exec(id, 'rm /data/big');
      return { ...rates(megabytes, { up, down }), memory: peak.megabytes };
    },
  };
}

function byCopy({ directory, source, megabytes }: Files): Subject {
  const copy = async (from: string, to: string): Promise<number> =>
    await timed(async () => {
      await mustRun(['cp', from, to]);
      await mustRun(['sync', to]);
    });
  return {
    name: 'cp',
    cycle: async () => {
      const [there, back] = [join(directory, 'there'), join(directory, 'back')];
      const up = await copy(source, there);
      const down = await copy(there, back);
      await rm(there);
      await rm(back);
      return rates(megabytes, { up, down });
    },
  };
}

/** A server of our own on loopback, for ourselves alone, which is no service of the machine. */
async function byScp({ directory, source, megabytes }: Files, stack: AsyncDisposableStack): Promise<Subject> {
  if (!existsSync(sshd)) return { name: 'scp', absent: `${sshd} is not installed` };
  const user = userInfo().username;
  const place = join(directory, 'ssh');
  await mkdir(place);
  const [hostKey, ownKey] = [join(place, 'host'), join(place, 'own')];
  for (const key of [hostKey, ownKey])
    await mustRun(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', key]);
  await mustRun(['cp', `${ownKey}.pub`, join(place, 'authorized')]);
  const port = await freePort();
  await writeFile(
    join(place, 'config'),
    `ListenAddress 127.0.0.1:${port}\nHostKey ${hostKey}\nAuthorizedKeysFile ${place}/authorized\nPidFile none\nUsePAM no\nStrictModes no\nSubsystem sftp internal-sftp\nForceCommand internal-sftp\n`,
  );
  const files = join(place, 'files');
  await mkdir(files);
  // Where root starts it, it wants an empty directory to lock itself in; Debian's service would make it.
  if (user === 'root') await mkdir('/run/sshd', { recursive: true });
  const server = spawn(sshd, ['-D', '-e', '-f', join(place, 'config')], { stdio: 'ignore' });
  stack.defer(async () => {
    const ended = once(server, 'exit');
    if (server.exitCode === null && server.kill()) await ended;
  });
  const options = [
    'BatchMode=yes',
    'StrictHostKeyChecking=no',
    'UserKnownHostsFile=/dev/null',
    'LogLevel=ERROR',
  ];
  const scp = ['scp', '-q', '-P', `${port}`, '-i', ownKey, ...options.flatMap((each) => ['-o', each])];
  const there = `${user}@127.0.0.1:${files}/big`;
  const out = join(directory, 'from-scp');
  const probe = join(place, 'probe');
  await writeFile(probe, 'x');
  await waitFor(
    'sshd',
    async () =>
      await mustRun([...scp, probe, `${there}-probe`]).then(
        () => true,
        () => false,
      ),
  );
  return {
    name: 'scp',
    cycle: async () => {
      const up = await timed(async () => {
        await mustRun([...scp, source, there]);
        await mustRun(['sync', join(files, 'big')]);
      });
      const down = await timed(async () => {
        await mustRun([...scp, there, out]);
        await mustRun(['sync', out]);
      });
      await rm(join(files, 'big'));
      await rm(out);
      return rates(megabytes, { up, down });
    },
  };
}

function rates(megabytes: number, { up, down }: { readonly up: number; readonly down: number }): Sample {
  return { up: (megabytes * 1_000) / up, down: (megabytes * 1_000) / down };
}

/** Of a process, while it is in use. */
class Peak implements Disposable {
  #beforeBytes: number | undefined;
  #mostBytes = 0;
  readonly #timer: NodeJS.Timeout;
  readonly #pid: number;

  constructor(pid: number) {
    this.#pid = pid;
    this.#timer = setInterval(() => void this.#look(), 200);
    void this.#look();
  }

  get megabytes(): number {
    return (this.#mostBytes - (this.#beforeBytes ?? 0)) / mib;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    const bytes = await pssBytes(this.#pid);
    this.#beforeBytes ??= bytes;
    this.#mostBytes = Math.max(this.#mostBytes, bytes);
  }
}
