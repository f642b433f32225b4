/** Where a source is from, for the manifest. */
export interface Origin {
  /** Whole: of what is in the layer. */
  readonly version: string;
  /** The official address, also where a mirror was asked: a mirror's may be private. */
  readonly from: string;
  readonly digest: string;
}

/** A source's archive as a file of this machine that was held against its checksum. */
export interface SourceFile extends Origin {
  readonly file: string;
}

/** How sources are fetched. */
export interface FetchPlace {
  readonly architecture: 'amd64' | 'arm64';
  /** Instead of the preset's own. */
  readonly version: string | undefined;
  /** Everything is written here; the caller removes it. */
  readonly scratch: string;
  readonly bytesMax: number;
  readonly onProgress: (text: string, bytes?: ByteProgress) => void;
  readonly signal: AbortSignal;
}

export interface ByteProgress {
  readonly done: number;
  readonly total: number | undefined;
}
