/** The files of one sandbox as one of its users sees them: the operations of `/v1` that SFTP needs. */
import type { IncomingMessage } from 'node:http';
import type { FileInfo, FilePage } from '@squash/contract/file';
import { type ApiRequest, readJson, sandboxPath } from '../daemon.ts';
import type { Login } from '../connection.ts';
import type { Attributes } from './packets.ts';

/** A page of a directory: what fits into an answer of some hundred KiB. */
const pageItems = 1_000;

export class RemoteFiles {
  readonly #login: Login;

  constructor(login: Login) {
    this.#login = login;
  }

  stat(path: Buffer, follow: boolean): Promise<FileInfo> {
    return this.#get(this.#address('stat', { ...place(path), ...(follow ? { follow: 'true' } : {}) }));
  }

  list(path: Buffer, cursor: string | undefined): Promise<FilePage> {
    const page = { limit: `${pageItems}`, ...(cursor === undefined ? {} : { cursor }) };
    return this.#get(this.#address('list', { ...place(path), ...page }));
  }

  async change(path: Buffer, { size, owner, permissions, modified }: Attributes): Promise<void> {
    const body = {
      ...(size === undefined ? {} : { size }),
      ...owner,
      ...(permissions === undefined ? {} : { mode: permissions.toString(8).padStart(4, '0') }),
      ...(modified === undefined ? {} : { modified_at: new Date(modified * 1_000).toISOString() }),
    };
    if (Object.keys(body).length > 0) await this.#send('PATCH', this.#address('', place(path)), body);
  }

  async remove(path: Buffer): Promise<void> {
    await this.#send('DELETE', this.#address('', place(path)));
  }

  async makeDirectory(path: Buffer, permissions: number | undefined): Promise<void> {
    const mode =
      permissions === undefined ? {} : { mode: (permissions & ~0o022).toString(8).padStart(4, '0') };
    await this.#send('POST', this.#address('directory', {}), { path: bodyPath(path), ...mode });
  }

  async move(from: Buffer, to: Buffer, overwrite: boolean): Promise<void> {
    await this.#send('POST', this.#address('move', {}), {
      from: bodyPath(from),
      to: bodyPath(to),
      overwrite,
    });
  }

  async link(path: Buffer, target: Buffer, hard: boolean): Promise<void> {
    await this.#send('POST', this.#address('link', {}), {
      path: bodyPath(path),
      target: target.toString(),
      hard,
    });
  }

  /** The bytes from `offset` on, of `length` where that is given. The answer may be a refusal. */
  async read(path: Buffer, { offset, length }: ReadRange, signal?: AbortSignal): Promise<IncomingMessage> {
    const end = length === undefined ? '' : `${offset + length - 1}`;
    // Files that do not know their size, as in /proc, can be read from their beginning only.
    const whole = offset === 0 && length === undefined;
    const { outgoing, answer } = this.#login.daemon.start({
      method: 'GET',
      path: this.#address('', place(path)),
      headers: whole ? {} : { range: `bytes=${offset}-${end}` },
      ...(signal === undefined ? {} : { signal }),
    });
    outgoing.end();
    return await answer;
  }

  /** A request whose body is what is written. */
  write(path: Buffer, { at, isTruncating, isNew, mode }: Writing) {
    const query = {
      ...place(path),
      ...(at === 'end' ? { append: 'true' } : { offset: `${at}` }),
      ...(isTruncating === true ? { truncate: 'true' } : {}),
      ...(mode === undefined ? {} : { mode: (mode & ~0o022).toString(8).padStart(4, '0') }),
    };
    return this.#login.daemon.start({
      method: 'PUT',
      path: this.#address('', query),
      headers: {
        'content-type': 'application/octet-stream',
        ...(isNew === true ? { 'if-none-match': '*' } : {}),
      },
    });
  }

  #address(what: string, query: Readonly<Record<string, string>>): string {
    const { sandbox, user } = this.#login;
    const words = new URLSearchParams({ ...query, ...(user === undefined ? {} : { as: user }) });
    return `${sandboxPath(sandbox, 'files', ...(what === '' ? [] : [what]))}?${words.toString()}`;
  }

  async #get<T>(path: string): Promise<T> {
    return await this.#login.daemon.json<T>({ method: 'GET', path });
  }

  async #send(method: ApiRequest['method'], path: string, body?: unknown): Promise<void> {
    await this.#login.daemon.json({ method, path }, body);
  }
}

export interface ReadRange {
  readonly offset: number;
  readonly length?: number;
}

export interface Writing {
  readonly at: number | 'end';
  readonly isTruncating?: boolean;
  readonly isNew?: boolean;
  readonly mode?: number | undefined;
}

/** @throws ApiError where the answer is a refusal */
export async function accepted(answer: Promise<IncomingMessage>): Promise<void> {
  await readJson(await answer);
}

const isText = (path: Buffer): boolean => Buffer.from(path.toString()).equals(path);

function place(path: Buffer): Readonly<Record<string, string>> {
  return isText(path) ? { path: path.toString() } : { path_base64: path.toString('base64') };
}

function bodyPath(path: Buffer): string | { readonly base64: string } {
  return isText(path) ? path.toString() : { base64: path.toString('base64') };
}
