/**
 * Anthropic's sandbox runtime (`srt`): one command in a bubblewrap sandbox with its proxies started for it.
 * It is fetched from npm into a cache of the benchmark's own; Squash does not depend on it.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { mustRun } from '../measure/process.ts';
import { fetchPackages } from './npm-packages.ts';
import type { Peer, PeerLab } from './peer.ts';

const version = '0.0.83';

export async function srt(lab: PeerLab): Promise<Peer> {
  const fetched = await fetchPackages(lab.cacheDir, `srt-${version}`, [
    `@anthropic-ai/sandbox-runtime@${version}`,
  ]);
  const cli = join(fetched, 'node_modules/@anthropic-ai/sandbox-runtime/dist/cli.js');
  const settings = join(lab.workDir, 'srt-settings.json');
  await writeFile(
    settings,
    JSON.stringify({
      network: { allowedDomains: [], deniedDomains: [] },
      filesystem: { denyRead: [], allowWrite: [lab.workDir], denyWrite: [] },
    }),
  );
  const peer: Peer = {
    name: 'srt',
    note: `@anthropic-ai/sandbox-runtime ${version}: host file system, a new sandbox for each command`,
    env: { ...process.env, HOME: lab.workDir },
    every: 16,
    once: (command) => [process.execPath, cli, '--settings', settings, ...command],
  };
  await mustRun(peer.once(['/bin/true']), { env: peer.env, cwd: lab.workDir });
  return peer;
}
