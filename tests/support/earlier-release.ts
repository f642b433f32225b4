/**
 * The project as it was when a protocol between its parts was the newest, taken from the repository's history and built: what
 * runs on somebody's machine when he upgrades. `contract/protocols.json` names the commit of each protocol.
 */
import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { repository } from './base-layer.ts';

const commits = JSON.parse(readFileSync(join(repository, 'contract/protocols.json'), 'utf8')) as Readonly<
  Record<string, string>
>;
/** What the daemon and the egress process need to run. */
const libraries = ['zod', 'hono', '@hono/node-server', 'ws'];

/** Why the release can't be had here, or false. */
export function missingRelease(protocol: string): string | false {
  const commit = commits[protocol];
  if (commit === undefined) throw new Error(`contract/protocols.json names no protocol ${protocol}`);
  const found = spawnSync('git', ['cat-file', '-e', `${commit}^{commit}`], { cwd: repository });
  return found.status === 0 ? false : `the history has no commit ${commit}: a shallow clone`;
}

/** The folder of the built release. Built once, and kept in `.cache/`. */
export async function earlierRelease(protocol: string): Promise<string> {
  const commit = commits[protocol] ?? '';
  const target = join(repository, '.cache/releases', commit);
  if (existsSync(target)) return target;
  const building = `${target}.building`;
  rmSync(building, { recursive: true, force: true });
  mkdirSync(building, { recursive: true });
  const archive = execFileSync('git', ['archive', commit], { cwd: repository, maxBuffer: 64 * 1024 * 1024 });
  execFileSync('tar', ['-x', '-C', building], { input: archive });
  // Copied, because a daemon of root's sees its own folder and nothing beside it.
  for (const name of libraries) {
    cpSync(join(repository, 'node_modules', name), join(building, 'node_modules', name), { recursive: true });
  }
  mkdirSync(join(building, 'node_modules/@squash'));
  for (const name of ['contract', 'host', 'egress']) {
    symlinkSync(join('../..', name), join(building, 'node_modules/@squash', name));
  }
  await promisify(execFile)('make', ['-C', join(building, 'native')], { maxBuffer: 16 * 1024 * 1024 });
  mkdirSync(dirname(target), { recursive: true });
  renameSync(building, target);
  return target;
}
