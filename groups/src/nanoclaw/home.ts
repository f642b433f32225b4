/** What of the original's places is a chat's: its agent's settings and transcripts. */
import { mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { put, readDropped } from './places.ts';
import { warn } from './warnings.ts';

export const session = process.env['SQUASH_SESSION'] ?? '/workspace/session';

/** As the original has them. */
const settings = {
  env: {
    CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS: '1',
    CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD: '1',
    CLAUDE_CODE_DISABLE_AUTO_MEMORY: '0',
  },
};

/** The home's `.claude` is the session's, and what programs name by the original's path is the same. */
export function linkHome(): void {
  const own = join(session, '.claude');
  mkdirSync(own, { recursive: true });
  if (readDropped(join(own, 'settings.json')).kind === 'gone') put(join(own, 'settings.json'), settings);
  link(own, '/home/node/.claude');
}

/** What the image has at the path goes, as under a mount. */
export function link(target: string, path: string): void {
  try {
    rmSync(path, { recursive: true, force: true });
    symlinkSync(target, path);
  } catch (error) {
    warn(`${path} is not ${target}: ${(error as Error).message}`);
  }
}
