/** The image that has nothing: what `FROM scratch` begins from. As a docker-archive with one empty layer, which the daemon takes in. */
import { createHash } from 'node:crypto';
import type { Image, Squash } from '@squash/sdk';
import { tarEnd, tarHeader, tarPadding } from '@squash/sdk/tar-writer';
import { architecture } from './plan.ts';

const name = 'squash.build/scratch';

export async function scratchImage(squash: Squash, signal: AbortSignal): Promise<Image> {
  const layer = Buffer.from(tarEnd());
  const diffId = `sha256:${createHash('sha256').update(layer).digest('hex')}`;
  const config = JSON.stringify({
    architecture,
    os: 'linux',
    config: {},
    rootfs: { type: 'layers', diff_ids: [diffId] },
  });
  const manifest = JSON.stringify([
    { Config: 'config.json', RepoTags: [`${name}:latest`], Layers: ['layer.tar'] },
  ]);
  const files = {
    'config.json': Buffer.from(config),
    'layer.tar': layer,
    'manifest.json': Buffer.from(manifest),
  };
  const parts = Object.entries(files).flatMap(([file, content]) => [
    tarHeader({ type: 'file', name: file, mode: 0o644, mtimeMs: 0, size: content.length, target: '' }),
    content,
    tarPadding(content.length),
  ]);
  return await squash.images.import(Buffer.concat([...parts, tarEnd()]), { name, signal });
}
