/** HTTPS by curl: a new connection, a request on one that is open, and a download; read, tunnelled, direct, proxied. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { mustRun } from '../measure/process.ts';
import type { Sample, Scenario, Subject } from '../measure/scenario.ts';
import { box, type NetworkPlace, openPlace, startInPlace } from '../network/place.ts';
import { type Context, rounds } from './context.ts';

const downloadBytes = 67_108_864;
const requests = 30;

export async function interceptScenario(context: Context, stack: AsyncDisposableStack): Promise<Scenario> {
  return {
    id: 'intercept',
    title: 'Network, TLS that is read',
    about: `curl over HTTP/1.1. "new" is a request with its connection and TLS, "reused" each further one on the same, "download" ${downloadBytes / 1_048_576} MB. Read: the host has a secret, which is in every request. The server is a Node process, the same for all; the plain proxy is another that ends TLS and begins it anew.`,
    metrics: [
      { id: 'new', title: 'request on a new connection', unit: 'ms' },
      { id: 'reused', title: 'request on an open connection', unit: 'ms' },
      { id: 'download', title: 'download', unit: 'ms' },
    ],
    warmups: 1,
    rounds: rounds(context, 20),
    subjects: await subjects(context, stack),
  };
}

async function subjects(context: Context, stack: AsyncDisposableStack): Promise<readonly Subject[]> {
  let place: NetworkPlace;
  try {
    place = await openPlace(stack);
  } catch (error) {
    return [{ name: 'Squash', absent: error instanceof Error ? error.message : String(error) }];
  }
  const { world } = place;
  const inSandbox = (cmd: string): Promise<string> => world.output(box, cmd, 120);
  const proxy = join(import.meta.dirname, '../network/tls-proxy.mjs');
  await startInPlace(world, [process.execPath, proxy, world.directory, '5.1.0.1', '443'], stack);
  const outside = (cmd: string): Promise<string> =>
    mustRun(['nsenter', `--target=${world.pid}`, '--net', '--mount', '--', 'sh', '-c', cmd]);
  const secret = `-H "Authorization: Bearer $KEY"`;
  type Run = (cmd: string) => Promise<string>;
  const subject = (name: string, run: Run, [flags, host]: readonly [string, string]): Subject => ({
    name,
    cycle: async () => await cycle(run, flags, host),
  });
  const around = '--connect-to ::127.0.0.1:9443';
  return [
    subject('Squash, read', inSandbox, [secret, 'secret.allowed.test']),
    subject('Squash, tunnelled', inSandbox, ['', 'www.allowed.test']),
    subject('direct', outside, ['', 'www.allowed.test']),
    subject('plain TLS proxy', outside, [around, 'www.allowed.test']),
    ...srtSubject(context, place),
  ];
}

async function cycle(run: (cmd: string) => Promise<string>, flags: string, host: string): Promise<Sample> {
  const curl = `curl --http1.1 -sS --fail ${flags} -o /dev/null`;
  const timed = `-w '%{time_total}\\n'`;
  const urls = Array.from({ length: requests }, () => `-o /dev/null https://${host}/hello`).join(' ');
  const [first = 0, ...more] = milliseconds(await run(`${curl} ${timed} ${urls}`));
  const download = milliseconds(
    await run(`${curl} ${timed} 'https://${host}/download?bytes=${downloadBytes}'`),
  );
  return { new: first, reused: more, download };
}

function milliseconds(text: string): number[] {
  return text
    .trim()
    .split('\n')
    .map((line) => Number(line) * 1_000);
}

/** Its proxies live as long as one command: what curl itself measures is compared, not their start. */
function srtSubject({ peers, workDir }: Context, { world }: NetworkPlace): readonly Subject[] {
  const peer = peers.present.find(({ name }) => name === 'srt');
  if (peer === undefined) return peers.absent.filter(({ name }) => name === 'srt');
  const [node = '', cli = ''] = peer.once([]);
  const settings = {
    network: { allowedDomains: ['*.allowed.test'], deniedDomains: [] },
    filesystem: { denyRead: [], allowWrite: [workDir], denyWrite: [] },
  };
  const path = join(world.directory, 'srt.json');
  const run = async (cmd: string): Promise<string> =>
    await mustRun(
      [
        'nsenter',
        `--target=${world.pid}`,
        '--net',
        '--mount',
        '--',
        node,
        cli,
        '--settings',
        path,
        'sh',
        '-c',
        cmd,
      ],
      { env: peer.env },
    );
  let isWritten = false;
  return [
    {
      name: 'srt proxy',
      every: 4,
      cycle: async () => {
        if (!isWritten) await writeFile(path, JSON.stringify(settings));
        isWritten = true;
        return await cycle(run, '', 'www.allowed.test');
      },
    },
  ];
}
