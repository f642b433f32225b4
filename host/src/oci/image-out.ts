/** An image's configuration and manifest as OCI has them, of what its record says and of its layers as blobs. */
import type { Image } from '@squash/contract/image';
import type { LayerBlob } from './layer-blob.ts';
import { digestOf } from './manifests.ts';

export const manifestType = 'application/vnd.oci.image.manifest.v1+json';

export interface Document {
  readonly bytes: Buffer;
  readonly digest: string;
}

export interface OutgoingImage {
  readonly config: Document;
  readonly manifest: Document;
}

/** Of the same image the same. */
export function imageOut(image: Image, blobs: readonly LayerBlob[]): OutgoingImage {
  const created = timeOf(image.created_at);
  const config = documentOf({
    created,
    architecture: image.architecture,
    os: 'linux',
    config: {
      ...(image.user !== '' && { User: image.user }),
      Env: Object.entries(image.env).map(([name, value]) => `${name}=${value}`),
      ...(image.entrypoint.length > 0 && { Entrypoint: image.entrypoint }),
      ...(image.cmd.length > 0 && { Cmd: image.cmd }),
      WorkingDir: image.workdir,
      ...(Object.keys(image.labels).length > 0 && { Labels: image.labels }),
    },
    rootfs: { type: 'layers', diff_ids: blobs.map(({ diffId }) => diffId) },
    history: blobs.map(() => ({ created, created_by: 'squash' })),
  });
  const manifest = documentOf({
    schemaVersion: 2,
    mediaType: manifestType,
    config: {
      mediaType: 'application/vnd.oci.image.config.v1+json',
      digest: config.digest,
      size: config.bytes.length,
    },
    layers: blobs.map(({ digest, size }) => ({
      mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip',
      digest,
      size,
    })),
  });
  return { config, manifest };
}

export function documentOf(value: unknown): Document {
  const bytes = Buffer.from(JSON.stringify(value));
  return { bytes, digest: digestOf(bytes) };
}

/** Other engines read no image whose time is none. */
function timeOf(text: string | null): string {
  const isTime = text !== null && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/.test(text);
  return isTime && !Number.isNaN(Date.parse(text)) ? text : '1970-01-01T00:00:00Z';
}
