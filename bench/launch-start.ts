/**
 * What the launcher alone takes to start a sandbox, beside a bare spawn from Node in the same run.
 *
 *   node bench/launch-start.ts [rounds]
 *
 * Runs itself again inside the namespaces of a launcher of its own. Minima are what to compare on a machine that does
 * other things meanwhile; the kinds of upper are taken in turn, so that load meets them alike.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { probeHost } from '../host/src/launch/host-probe.ts';
import { LaunchClient } from '../host/src/launch/launch-client.ts';
import type { LaunchStart } from '../host/src/launch/launch-fields.ts';
import { enterCommand } from '../base/src/daemon-command.ts';
import { baseLayer } from '../tests/support/base-layer.ts';

const rounds = Number(process.argv[2] ?? 30);
const place = process.env['SQUASH_BENCH_PLACE'];
if (place === undefined) await outside();
else await inside(place);

async function outside(): Promise<void> {
  const dataDir = mkdtempSync('/tmp/squash-bench-');
  const runDir = join(dataDir, 'run');
  for (const name of ['run', 'modules']) mkdirSync(join(dataDir, name));
  copyFileSync(await baseLayer(), join(dataDir, 'modules/base.squashfs'));
  const words = [process.execPath, import.meta.filename, String(rounds)];
  const all = enterCommand({ dataDir, runDir }, words).words;
  // A daemon's filter forbids the bare spawn.
  const [program = '', ...rest] = all.filter((word, i) => word !== '--filter' && all[i - 1] !== '--filter');
  const env = { ...process.env, SQUASH_BENCH_PLACE: dataDir };
  execFileSync(program, rest, { env, stdio: 'inherit' });
  rmSync(dataDir, { recursive: true });
}

async function inside(dataDir: string): Promise<void> {
  const client = new LaunchClient(join(dataDir, 'run'));
  await client.unpack({
    path: 'modules/base.squashfs',
    target: 'layers/base',
    bytesMax: 1e9,
    inodesMax: 1e5,
  });
  const capabilities = await probeHost(client);
  const kinds = ['directory', 'project', 'image', 'tmpfs'].filter(
    (kind) =>
      kind === 'directory' ||
      capabilities.some(({ name, state }) => name === `upper_${kind}` && state === 'ok'),
  );
  const times = new Map<string, number[]>();
  for (let round = 0; round < rounds; round += 1) {
    await measure(times, 'spawn', async () => once(spawn('/bin/true'), 'exit'));
    for (const kind of kinds) {
      const start = startOf(kind, round);
      await measure(times, `${kind}: upper`, async () => client.createUpper(start.upper));
      await measure(times, `${kind}: start`, async () => client.start(start));
      await measure(times, `${kind}: stop`, async () => client.stop(start.name));
      await client.removeTree(`sandboxes/${start.name}`);
    }
  }
  await client.shutdown();
  client[Symbol.dispose]();
  report(times);
}

function startOf(kind: string, round: number): LaunchStart {
  return {
    name: `bench${round}` as LaunchStart['name'],
    instance: Date.now(),
    hostname: 'bench',
    lowers: ['layers/base'],
    upper: { path: `sandboxes/bench${round}/uppers/1`, kind, bytesMax: 2 ** 31, inodesMax: 200_000 },
    makesUpper: false,
    mounts: [],
    memoryBytesMax: 2 ** 29,
    cpuMilli: 1_000,
    pidsMax: 256,
    shmBytesMax: 2 ** 26,
    openFilesMax: 4_096,
    hosts: '127.0.0.1\tlocalhost\n',
    resolvConf: '',
  };
}

async function measure(
  times: Map<string, number[]>,
  name: string,
  step: () => Promise<unknown>,
): Promise<void> {
  const begin = performance.now();
  await step();
  const list = times.get(name) ?? [];
  list.push(performance.now() - begin);
  times.set(name, list);
}

function report(times: ReadonlyMap<string, readonly number[]>): void {
  const at = (list: readonly number[], part: number): number =>
    [...list].sort((a, b) => a - b)[Math.floor(part * (list.length - 1))] ?? 0;
  const spawns = times.get('spawn') ?? [];
  for (const [name, list] of times) {
    const [min, median] = [at(list, 0), at(list, 0.5)];
    const ratio = `${(min / at(spawns, 0)).toFixed(1)} / ${(median / at(spawns, 0.5)).toFixed(1)} S`;
    console.log(`${name.padEnd(18)} min ${min.toFixed(2)} ms, median ${median.toFixed(2)} ms   ${ratio}`);
  }
}
