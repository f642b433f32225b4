/** OCI images, which sandboxes are made from instead of modules. */
import { type Connection, type Signal, startMsMax } from './connection.ts';
import { SquashError } from './errors.ts';
import { everyItem } from './pages.ts';
import type { Image, ImagePull, Operations } from './records.gen.ts';
import type { Upload } from './transport.ts';

export type ImageFilter = Operations['image.list']['query'] & Signal;

export interface PullOptions extends Signal {
  /** The registry is asked even if an image of this name is here. */
  readonly again?: boolean;
  /** Told of now and then; without it the daemon is asked as seldom as it allows. */
  readonly onProgress?: (progress: ImagePull) => void;
}

/** How long one answer waits. */
const waitMs = { shown: 500, unseen: 30_000 };

export class Images {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** `image.list` */
  list({ signal, ...query }: ImageFilter = {}): AsyncGenerator<Image, void, void> {
    return everyItem(this.#connection, 'image.list', { query, signal });
  }

  /** `image.get` @throws NotFound */
  async get(image: string, options: Signal = {}): Promise<Image> {
    return await this.#connection.call('image.get', { path: { image }, ...options });
  }

  /** `image.pull`: to its end, such as of `python:3.12-slim`. @throws SquashError (`registry_denied`, `image_unsupported`, …) */
  async pull(reference: string, options: PullOptions = {}): Promise<Image> {
    return await pullImage(this.#connection, reference, options);
  }

  /** `image.import`: a docker-archive or an OCI layout as a tar. @throws BadRequest */
  async import(
    file: Exclude<Upload, string>,
    { signal, ...query }: Operations['image.import']['query'] & Signal = {},
  ): Promise<Image> {
    return await this.#connection.call('image.import', { query, upload: file, signal, takesMs: startMsMax });
  }

  /** `image.commit`: an image of a sandbox, or of a snapshot of it. @throws NotFound, SquashError (`disk_full`, `module_not_found`, …) */
  async commit({ signal, ...body }: Operations['image.commit']['body'] & Signal): Promise<Image> {
    return await this.#connection.call('image.commit', { body, signal, takesMs: startMsMax });
  }

  /** `image.remove`: sandboxes that were made from it keep what they need. @throws NotFound */
  async remove(image: string, options: Signal = {}): Promise<void> {
    await this.#connection.call('image.remove', { path: { image }, ...options });
  }
}

async function pullImage(connection: Connection, reference: string, options: PullOptions): Promise<Image> {
  const { again = false, onProgress, signal } = options;
  const wait = onProgress === undefined ? waitMs.unseen : waitMs.shown;
  for (let isAgain = again; ; isAgain = false) {
    const body = { reference, wait_ms: wait, again: isAgain };
    const pull: ImagePull = await connection.call('image.pull', { body, signal, takesMs: startMsMax });
    if (pull.image !== null) return pull.image;
    onProgress?.(pull);
  }
}

/** So that no request of a create waits for a whole registry. Who may not pull gets what is here, as the create says. */
export async function haveImage(
  connection: Connection,
  reference: string,
  { signal }: Signal,
): Promise<void> {
  try {
    await pullImage(connection, reference, { signal });
  } catch (error) {
    if (!(error instanceof SquashError) || error.code !== 'forbidden') throw error;
  }
}
