/**
 * Anthropic's sandbox runtime (`srt`): one command in a bubblewrap sandbox with its proxies started for it.
 * It is fetched from npm into a cache of the benchmark's own; Squash does not depend on it.
 */
import { access, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { lastLine, mustRun, run } from '../measure/process.ts';
import type { Peer, PeerLab } from './peer.ts';

const version = '0.0.83';

export async function srt(lab: PeerLab): Promise<Peer> {
  const prefix = join(lab.cacheDir, `srt-${version}`);
  const cli = join(prefix, 'node_modules/@anthropic-ai/sandbox-runtime/dist/cli.js');
  const installed = await access(cli).then(
    () => true,
    () => false, // Not fetched yet.
  );
  if (!installed) {
    await mkdir(prefix, { recursive: true });
    await writeFile(join(prefix, 'package.json'), '{"private":true}\n');
    // No install scripts: a benchmark runs nothing of a registry's but the program it measures.
    const flags = ['--ignore-scripts', '--no-fund', '--no-audit', '--no-progress'];
    const install = ['npm', 'install', ...flags, `@anthropic-ai/sandbox-runtime@${version}`];
    const { code, stderr } = await run(install, {
      cwd: prefix,
      // npm would leave its compile cache in the directory for temporary files.
      env: { ...process.env, NODE_DISABLE_COMPILE_CACHE: '1' },
    });
    if (code !== 0) throw new Error(`npm could not fetch srt ${version}: ${lastLine(stderr)}`);
  }
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
