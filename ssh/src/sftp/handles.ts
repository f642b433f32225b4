/** What a client of SFTP has open, under names that it gives back. */
import type { FileInfo } from '@squash/contract/file';
import { ApiError } from '../daemon.ts';
import { nameEntry } from './listing.ts';
import { OpenFile, type OpenMode } from './open-file.ts';
import { statusCodes } from './packets.ts';
import { accepted, type RemoteFiles } from './remote-files.ts';
import { SftpError } from './sftp-error.ts';

export interface Opening {
  readonly creates: boolean;
  readonly truncates: boolean;
  /** It must not be there yet. */
  readonly isNew: boolean;
  readonly permissions: number | undefined;
}

/** Entries of one answer: with the longest names they stay below what clients take. */
const entriesMax = 100;
const handlesMax = 64;

export class Handles implements Disposable {
  readonly #files: RemoteFiles;
  readonly #open = new Map<string, OpenFile | OpenDirectory>();
  #last = 0;

  constructor(files: RemoteFiles) {
    this.#files = files;
  }

  get countMax(): number {
    return handlesMax;
  }

  [Symbol.dispose](): void {
    for (const each of this.#open.values()) if (each instanceof OpenFile) each.abandon();
  }

  /** @throws ApiError, SftpError */
  async openFile(path: Buffer, mode: OpenMode, opening: Opening): Promise<string> {
    const found = await this.#look(path);
    if (found !== undefined && found.type !== 'file') {
      throw new SftpError(statusCodes.failure, `it is a ${found.type}`);
    }
    if (mode.writes) await this.#prepare(path, found, opening);
    else if (found === undefined) throw new SftpError(statusCodes.noSuchFile, 'there is no such file');
    return this.#add(new OpenFile(this.#files, path, mode));
  }

  /** @throws ApiError, SftpError */
  async openDirectory(path: Buffer): Promise<string> {
    const directory = new OpenDirectory(this.#files, path);
    // What can't be listed is told now.
    await directory.fill();
    return this.#add(directory);
  }

  file(handle: Buffer): OpenFile {
    const found = this.#open.get(handle.toString());
    if (found instanceof OpenFile) return found;
    throw new SftpError(statusCodes.failure, 'no such handle of a file');
  }

  directory(handle: Buffer): OpenDirectory {
    const found = this.#open.get(handle.toString());
    if (found instanceof OpenDirectory) return found;
    throw new SftpError(statusCodes.failure, 'no such handle of a directory');
  }

  async close(handle: Buffer): Promise<void> {
    const name = handle.toString();
    const found = this.#open.get(name);
    if (found === undefined) throw new SftpError(statusCodes.failure, 'no such handle');
    this.#open.delete(name);
    if (found instanceof OpenFile) await found.close();
  }

  async #look(path: Buffer): Promise<FileInfo | undefined> {
    try {
      return await this.#files.stat(path, true);
    } catch (error) {
      if (error instanceof ApiError && error.code === 'file_not_found') return undefined;
      throw error;
    }
  }

  /** Makes or empties the file now, so that whoever may not hears it before he sends. */
  async #prepare(path: Buffer, found: FileInfo | undefined, opening: Opening): Promise<void> {
    const { creates, truncates, isNew, permissions } = opening;
    if (found === undefined && !creates) throw new SftpError(statusCodes.noSuchFile, 'there is no such file');
    if (found !== undefined && !truncates && !isNew) return;
    const mode = found === undefined ? permissions : undefined;
    const { outgoing, answer } = this.#files.write(path, { at: 0, isTruncating: true, isNew, mode });
    outgoing.end();
    await accepted(answer);
  }

  #add(opened: OpenFile | OpenDirectory): string {
    if (this.#open.size >= handlesMax) throw new SftpError(statusCodes.failure, 'too much is open already');
    this.#last += 1;
    const handle = `${this.#last}`;
    this.#open.set(handle, opened);
    return handle;
  }
}

class OpenDirectory {
  readonly #files: RemoteFiles;
  readonly #path: Buffer;
  #items: FileInfo[] = [];
  #next: string | null | undefined;

  constructor(files: RemoteFiles, path: Buffer) {
    this.#files = files;
    this.#path = path;
  }

  async fill(): Promise<void> {
    const page = await this.#files.list(this.#path, this.#next ?? undefined);
    this.#items = [...page.items];
    this.#next = page.next;
  }

  /** The next entries; none at the end. */
  async next(): Promise<readonly Buffer[]> {
    while (this.#items.length === 0 && this.#next !== null) await this.fill();
    return this.#items.splice(0, entriesMax).map((item) => nameEntry(item));
  }
}
