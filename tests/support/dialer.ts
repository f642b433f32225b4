/** A layer with `dialer.c` as `/dialer`, compiled static and unpacked below the data directory. */
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Place } from './launcher.ts';

/** Call inside the launcher, once per file. Returns the lower to name before `place.lower`. */
export async function dialerLayer(place: Place): Promise<string> {
  const source = mkdtempSync(join(place.dataDir, 'dialer-'));
  const path = join(source, 'dialer');
  const strict = ['-std=gnu17', '-D_GNU_SOURCE', '-O1', '-Wall', '-Wextra', '-Werror', '-static'];
  execFileSync('gcc', [...strict, '-o', path, join(import.meta.dirname, 'dialer.c')]);
  chmodSync(source, 0o755);
  const module = join(place.dataDir, 'modules/dialer.squashfs');
  execFileSync('mksquashfs', [source, module, '-all-root', '-noappend', '-no-progress', '-quiet'], {
    stdio: 'ignore',
  });
  rmSync(source, { recursive: true });
  const target = 'layers/dialer';
  await place.client.unpack({ path: 'modules/dialer.squashfs', target, bytesMax: 1e7, inodesMax: 100 });
  return target;
}
