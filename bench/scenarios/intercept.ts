/** HTTPS by curl: a new connection, a request on one that is open, and a download; read, tunnelled, direct, proxied. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { mustRun } from '../measure/process.ts';
import type { Sample, Scenario, Subject } from '../measure/scenario.ts';
import { box, inPlace, type NetworkPlace, serverAddress, startInPlace } from '../network/place.ts';
import { type Context, rounds } from './context.ts';

const downloadBytes = 67_108_864;
const requests = 30;

export async function interceptScenario(context: Context, stack: AsyncDisposableStack): Promise<Scenario> {
  return {
    id: 'intercept',
    title: 'Network, TLS that is read',
    about: `curl over HTTP/1.1. "new" is a request with its connection and TLS, "reused" each further one on the same, "rate" how many such a second, one after the other, "download" ${downloadBytes / 1_048_576} MB. Read: the host has a secret, which is in every request. The server is a Node process, the same for all. The plain proxies are others: one ends TLS and begins it anew and looks at no byte, direct from curl; one also reads and writes HTTP, and curl comes from the sandbox, tunnelled: what Squash does without its rules.`,
    metrics: [
      { id: 'new', title: 'request on a new connection', unit: 'ms' },
      { id: 'reused', title: 'request on an open connection', unit: 'ms' },
      { id: 'rate', title: 'requests', unit: '/s' },
      { id: 'download', title: 'download', unit: 'ms' },
    ],
    warmups: 1,
    rounds: rounds(context, 14),
    subjects: await inPlace(stack, async (place) => await subjects(context, place, stack)),
  };
}

interface Asked {
  readonly run: (cmd: string) => Promise<string>;
  /** Of curl. */
  readonly flags: string;
  readonly host: string;
}

async function subjects(
  context: Context,
  place: NetworkPlace,
  stack: AsyncDisposableStack,
): Promise<readonly Subject[]> {
  const { world } = place;
  const inSandbox = (cmd: string): Promise<string> => world.output(box, cmd, 120);
  for (const name of ['tls-proxy.mjs', 'https-proxy.mjs']) {
    const program = join(import.meta.dirname, '../network', name);
    await startInPlace(world, [process.execPath, program, world.directory, serverAddress, '443'], stack);
  }
  const outside = (cmd: string): Promise<string> =>
    mustRun(['nsenter', `--target=${world.pid}`, '--net', '--mount', '--', 'sh', '-c', cmd]);
  const secret = `-H "Authorization: Bearer $KEY"`;
  const subject = (name: string, asked: Asked): Subject => ({
    name,
    cycle: async () => await cycle(asked.run, asked.flags, asked.host),
  });
  const host = 'www.allowed.test';
  return [
    subject('Squash, read', { run: inSandbox, flags: secret, host: 'secret.allowed.test' }),
    subject('Squash, tunnelled', { run: inSandbox, flags: '', host }),
    subject('direct', { run: outside, flags: '', host }),
    subject('plain TLS proxy', { run: outside, flags: '--connect-to ::127.0.0.1:9443', host }),
    subject('plain HTTPS proxy, tunnelled', { run: inSandbox, flags: `--connect-to ::${host}:9444`, host }),
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
  return { new: first, reused: more, rate: (more.length / sum(more)) * 1_000, download };
}

function sum(values: readonly number[]): number {
  return values.reduce((all, value) => all + value, 0);
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
    // The server has an address of this very host, which it refuses unless it is named.
    network: { allowedDomains: ['*.allowed.test', `${serverAddress}:443`], deniedDomains: [] },
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
