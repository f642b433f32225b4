/**
 * Runs the CLI from its sources: what `squash.cjs` falls back to, and what tests call.
 *
 * It is JavaScript because the compile cache must be on before the first TypeScript file is loaded: loading Node's type
 * stripper costs more than all of the CLI (35 ms beside Node's own 25); from the cache it is never loaded.
 * The cache holds code that will be executed, so it lies in the home directory that the password database
 * names for this user: nobody else can write there, and `sudo` can't lend us another user's `HOME`.
 */
import { enableCompileCache } from 'node:module';
import { userInfo } from 'node:os';

function cacheDirectory() {
  try {
    return `${userInfo().homedir}/.cache/squash/compile`;
  } catch {
    // A container's user may have no row in the password database. Slower, and nothing else.
    return undefined;
  }
}

const directory = cacheDirectory();
// An unwritable directory is reported in the result and costs time only.
if (directory !== undefined) enableCompileCache(directory);
const { start } = await import('../src/main.ts');
await start(process.argv.slice(2));
process.exit();
