/** Where an image's parts come from: a registry or an archive. What both give is the same from here on. */
import type { ImageReference } from '@squash/contract/image-reference';
import type { ImageConfig } from './manifests.ts';

/** A layer's blob, as a part of a file. */
export interface BlobPlace extends AsyncDisposable {
  readonly path: string;
  readonly offset: number;
  readonly length: number;
}

export interface SourceLayer {
  /** `sha256:…` of the tar within. */
  readonly diffId: string;
  /** `sha256:…` of the blob; undefined where nobody has stated it. */
  readonly digest: string | undefined;
  /** Of the blob. */
  readonly size: number;
  /** Has it on the disk. @throws registry_unavailable, image_invalid, disk_full */
  readonly open: (signal: AbortSignal, onBytes: (bytes: number) => void) => Promise<BlobPlace>;
}

export interface SourceImage {
  readonly source: 'registry' | 'archive';
  /** `sha256:…` of the manifest. */
  readonly digest: string | null;
  readonly config: ImageConfig;
  /** Lowest first. */
  readonly layers: readonly SourceLayer[];
}

/** The registries of the world. */
export interface Registries {
  /** Asks what an image is; its layers come when they are opened. @throws registry_unavailable, registry_denied, image_invalid */
  find(
    reference: ImageReference,
    signal: AbortSignal,
  ): Promise<{ readonly image: SourceImage } & AsyncDisposable>;
  /** Where an image is sent to. Nothing is asked yet. @throws registry_credentials_unreadable */
  target(reference: ImageReference): Promise<ImageTarget>;
}

/** A file that is a blob. */
export interface OutgoingBlob {
  readonly path: string;
  readonly digest: string;
  readonly size: number;
}

/** A name in a registry that is to be given to an image. @throws registry_unavailable, registry_denied */
export interface ImageTarget {
  has(digest: string, signal: AbortSignal): Promise<boolean>;
  /** @param onBytes told of what more is there; of less, where it begins anew */
  blob(blob: OutgoingBlob, onBytes: (bytes: number) => void, signal: AbortSignal): Promise<void>;
  /** Gives the name to it, when its blobs are there. */
  manifest(bytes: Buffer, signal: AbortSignal): Promise<void>;
}
