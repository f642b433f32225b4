/** Layers with one program of this folder, `NAME.c` as `/NAME`, compiled static and unpacked below the data directory. */
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Place } from './launcher.ts';

/** Call inside the launcher, once per file. Returns the lower to name before `place.lower`. */
export async function dialerLayer(place: Place): Promise<string> {
  return programLayer(place, 'dialer');
}

export async function programLayer(place: Place, name: string): Promise<string> {
  const source = mkdtempSync(join(place.dataDir, `${name}-`));
  const path = join(source, name);
  const strict = ['-std=gnu17', '-D_GNU_SOURCE', '-O1', '-Wall', '-Wextra', '-Werror', '-static'];
  execFileSync('gcc', [...strict, '-o', path, join(import.meta.dirname, `${name}.c`)]);
  chmodSync(source, 0o755);
  const module = join(place.dataDir, `modules/${name}.squashfs`);
  execFileSync('mksquashfs', [source, module, '-all-root', '-noappend', '-no-progress', '-quiet'], {
    stdio: 'ignore',
  });
  rmSync(source, { recursive: true });
  const target = `layers/${name}`;
  await place.client.unpack({ path: `modules/${name}.squashfs`, target, bytesMax: 1e7, inodesMax: 100 });
  return target;
}
