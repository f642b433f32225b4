/**
 * Files of a sandbox, through its PID 1. What a client takes or sends as slowly as it likes has places of its own, and who finds
 * none is told so; everything else waits for its turn: neither leaves PID 1 without a worker for the other.
 */
import { AppError } from '@squash/contract/errors';
import type { SandboxId } from '@squash/contract/ids';
import { limits } from '@squash/contract/limits';
import type {
  AsUser,
  Creation,
  Extraction,
  FileChange,
  FileListing,
  FileMatch,
  FileSearch,
  FileStat,
  FileWriting,
  GuestFilePath,
  GuestFileSystem,
  Placing,
} from '../guest/guest.ts';
export type { FileListing, FileStat, FileWriting, GuestFilePath } from '../guest/guest.ts';
import { Semaphore } from '../sandbox/mailbox.ts';
import type { NamedUser } from '../sandbox/user-names.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { archiveCodes, conditionCodes, errnoOf, fileError } from './file-errors.ts';
import type { Residents } from './residents.ts';
import { UpperKills } from './upper-kills.ts';
import { findUser, passwd } from './users.ts';

/** A file in a sandbox, and as whom it is asked for. */
export interface Place {
  readonly id: SandboxId;
  readonly path: GuestFilePath;
  /** Without it root, or the user of the host whose file system is the root. A name is looked up in the sandbox. */
  readonly as?: AsUser['as'] | string;
}

export interface FileRange {
  readonly offset: number;
  readonly length: number;
}

/** Bytes on their way to a client. Must be disposed of. */
export interface FileData extends Disposable {
  /** Once. Cut short by an error where the file is no more what was promised. */
  data(): AsyncGenerator<Buffer, void, void>;
}

export interface FileReading extends FileData {
  readonly stat: FileStat;
}

export interface FoundFile {
  readonly path: Buffer;
  readonly stat: FileStat;
}

export interface FilesPage {
  readonly items: FoundFile[];
  readonly isTruncated: boolean;
}

export interface FileWatching extends Disposable {
  events(): AsyncGenerator<{ readonly change: FileChange; readonly path: Buffer }, void, void>;
}

export interface Files {
  /** @param choose what of it is wanted, of a file in this state; undefined is all */
  read(place: Place, choose: (stat: FileStat) => FileRange | undefined): Promise<FileReading>;
  write(place: Place, data: AsyncIterable<Uint8Array>, options: FileWriting): Promise<FileStat>;
  stat(place: Place, followLinks: boolean): Promise<FileStat>;
  /** Of the sandbox, in its turn like any look at a file. @throws user_not_found */
  user(id: SandboxId, name: string): Promise<NamedUser>;
  list(place: Place, listing: FileListing, signal: AbortSignal): Promise<FilesPage>;
  search(
    place: Place,
    search: FileSearch,
    signal: AbortSignal,
  ): Promise<{ readonly items: FileMatch[]; readonly isTruncated: boolean }>;
  change(
    place: Place,
    change: Parameters<GuestFileSystem['change']>[1],
    signal: AbortSignal,
  ): Promise<FileStat>;
  remove(place: Place, recursive: boolean, signal: AbortSignal): Promise<void>;
  makeDirectory(place: Place, options: Creation): Promise<FileStat>;
  link(
    place: Place,
    target: GuestFilePath,
    options: Parameters<GuestFileSystem['link']>[2],
  ): Promise<FileStat>;
  move(
    from: Place,
    to: GuestFilePath,
    options: Placing & { readonly signal: AbortSignal },
  ): Promise<FileStat>;
  copy(
    from: Place,
    to: GuestFilePath,
    options: Placing & { readonly recursive: boolean; readonly signal: AbortSignal },
  ): Promise<FileStat>;
  /** Until the signal ends it, too. */
  watch(place: Place, recursive: boolean, signal: AbortSignal): Promise<FileWatching>;
  pack(place: Place, signal: AbortSignal): Promise<FileData>;
  unpack(
    place: Place,
    tar: AsyncIterable<Uint8Array>,
    options: Extraction,
  ): Promise<{ readonly entries: number; readonly bytes: number }>;
}

/** Of one sandbox. */
interface Turns {
  readonly operations: Semaphore;
  waiting: number;
  transfers: number;
}

/** Tries to open a file that somebody changes between the look and the opening. */
const openTries = 5;

export class LocalFiles implements Files {
  readonly #residents: Residents;
  readonly #turns = new WeakMap<Sandbox, Turns>();

  constructor(residents: Residents) {
    this.#residents = residents;
  }

  async read(place: Place, choose: (stat: FileStat) => FileRange | undefined): Promise<FileReading> {
    const { sandbox, release } = this.#transfer(place.id);
    try {
      const files = await readyFiles(sandbox);
      const { opened, range } = await open(files, placeIn(sandbox, place), choose);
      const { stat } = opened;
      const end = (): void => {
        opened[Symbol.dispose]();
        release();
      };
      // What says it is empty may be a file of /proc, which has no size and content all the same.
      const promised = range?.length ?? (stat.size === 0 ? undefined : stat.size);
      const data = () => moved(sandbox, exactly(opened.data(), promised));
      return { stat, data, [Symbol.dispose]: end };
    } catch (error) {
      release();
      throw fileError(error);
    }
  }

  async pack(place: Place, signal: AbortSignal): Promise<FileData> {
    const { sandbox, release } = this.#transfer(place.id);
    try {
      const files = await readyFiles(sandbox);
      const tar = files.archive(place.path, await whoIs(placeIn(sandbox, place), files), signal);
      // Its first piece, so that a refusal has its status.
      const first = await tar.next();
      const data = async function* (): AsyncGenerator<Buffer, void, void> {
        if (first.done === true) return;
        yield first.value;
        yield* tar;
      };
      const end = (): void => {
        void tar.return();
        release();
      };
      return { data: () => moved(sandbox, data()), [Symbol.dispose]: end };
    } catch (error) {
      release();
      throw fileError(error);
    }
  }

  async write(place: Place, data: AsyncIterable<Uint8Array>, options: FileWriting): Promise<FileStat> {
    const isConditional = options.exclusive === true || options.over !== undefined;
    return await this.#receive(
      place,
      isConditional ? conditionCodes : {},
      async ({ files, who, sandbox, kills }) => {
        await files.write(place.path, moved(sandbox, data, kills), { ...options, ...who });
        return await files.stat(place.path, { ...who, followLinks: true });
      },
    );
  }

  async unpack(
    place: Place,
    tar: AsyncIterable<Uint8Array>,
    options: Extraction,
  ): Promise<{ readonly entries: number; readonly bytes: number }> {
    return await this.#receive(place, archiveCodes, ({ files, who, sandbox, kills }) =>
      files.extract(place.path, moved(sandbox, tar, kills), { ...options, ...who }),
    );
  }

  stat(place: Place, followLinks: boolean): Promise<FileStat> {
    return this.#use(place, (files, who) => files.stat(place.path, { ...who, followLinks }));
  }

  user(id: SandboxId, name: string): Promise<NamedUser> {
    return this.#use({ id, path: passwd }, (files) => findUser(files, name));
  }

  list(place: Place, listing: FileListing, signal: AbortSignal): Promise<FilesPage> {
    return this.#use(place, (files, who) => all(files.list(place.path, { ...listing, ...who }, signal)));
  }

  search(
    place: Place,
    search: FileSearch,
    signal: AbortSignal,
  ): Promise<{ readonly items: FileMatch[]; readonly isTruncated: boolean }> {
    return this.#use(place, (files, who) => all(files.search(place.path, { ...search, ...who }, signal)));
  }

  change(
    place: Place,
    change: Parameters<GuestFileSystem['change']>[1],
    signal: AbortSignal,
  ): Promise<FileStat> {
    return this.#use(place, async (files, who) => {
      await files.change(place.path, { ...change, ...who }, signal);
      return await files.stat(place.path, { ...who, followLinks: true });
    });
  }

  remove(place: Place, recursive: boolean, signal: AbortSignal): Promise<void> {
    return this.#use(place, (files, who) => files.remove(place.path, { ...who, recursive }, signal));
  }

  makeDirectory(place: Place, options: Creation): Promise<FileStat> {
    return this.#use(place, async (files, who) => {
      await files.makeDirectory(place.path, { ...options, ...who });
      return await files.stat(place.path, { ...who, followLinks: true });
    });
  }

  link(
    place: Place,
    target: GuestFilePath,
    options: Parameters<GuestFileSystem['link']>[2],
  ): Promise<FileStat> {
    return this.#use(place, async (files, who) => {
      await files.link(place.path, target, { ...options, ...who });
      return await files.stat(place.path, who);
    });
  }

  move(
    from: Place,
    to: GuestFilePath,
    options: Placing & { readonly signal: AbortSignal },
  ): Promise<FileStat> {
    return this.#use(from, async (files, who) => {
      const placing = { ...options, ...who };
      try {
        await files.move(from.path, to, placing);
      } catch (error) {
        if (errnoOf(error) !== 'EXDEV') throw error;
        await moveByCopy(files, { from, to }, placing);
      }
      return await files.stat(to, who);
    });
  }

  copy(
    from: Place,
    to: GuestFilePath,
    options: Placing & { readonly recursive: boolean; readonly signal: AbortSignal },
  ): Promise<FileStat> {
    return this.#use(from, async (files, who) => {
      await files.copy({ from: from.path, to }, { ...options, ...who }, options.signal);
      return await files.stat(to, who);
    });
  }

  async watch(place: Place, recursive: boolean, signal: AbortSignal): Promise<FileWatching> {
    const stop = new AbortController();
    const until = AbortSignal.any([signal, stop.signal]);
    const end = (): void => stop.abort();
    try {
      const events = await this.#use(place, (files, who) =>
        files.watch(place.path, { ...who, recursive }, until),
      );
      return { events: () => events, [Symbol.dispose]: end };
    } catch (error) {
      end();
      throw error;
    }
  }

  /** A short operation, in its turn. */
  async #use<T>(place: Place, body: (files: GuestFileSystem, who: AsUser) => Promise<T>): Promise<T> {
    const { id } = place;
    const sandbox = this.#residents.find(id);
    const turns = this.#turnsOf(sandbox);
    if (turns.waiting >= limits.fileOperationsWaitingMax) {
      throw new AppError(
        'sandbox_busy',
        `${turns.waiting} file operations wait for sandbox "${id}": try again later`,
      );
    }
    turns.waiting += 1;
    try {
      return await turns.operations.run(async () => {
        const files = await readyFiles(sandbox);
        return await body(files, await whoIs(placeIn(sandbox, place), files));
      });
    } catch (error) {
      throw fileError(error);
    } finally {
      turns.waiting -= 1;
    }
  }

  async #receive<T>(
    place: Place,
    codes: Parameters<typeof fileError>[1],
    body: (at: {
      readonly files: GuestFileSystem;
      readonly who: AsUser;
      readonly sandbox: Sandbox;
      readonly kills: UpperKills;
    }) => Promise<T>,
  ): Promise<T> {
    const { sandbox, release } = this.#transfer(place.id);
    const kills = new UpperKills(sandbox);
    try {
      const files = await readyFiles(sandbox);
      return await body({ files, who: await whoIs(placeIn(sandbox, place), files), sandbox, kills });
    } catch (error) {
      throw await kills.explained(fileError(error, codes));
    } finally {
      release();
    }
  }

  /** A place for bytes on their way. @throws stream_limit */
  #transfer(id: SandboxId): { readonly sandbox: Sandbox; readonly release: () => void } {
    const sandbox = this.#residents.find(id);
    const turns = this.#turnsOf(sandbox);
    if (turns.transfers >= limits.fileTransfersMax) {
      throw new AppError(
        'stream_limit',
        `${limits.fileTransfersMax} transfers of sandbox "${id}" are in progress`,
      );
    }
    turns.transfers += 1;
    let isHeld = true;
    const release = (): void => {
      if (isHeld) turns.transfers -= 1;
      isHeld = false;
    };
    return { sandbox, release };
  }

  #turnsOf(sandbox: Sandbox): Turns {
    let turns = this.#turns.get(sandbox);
    if (turns === undefined) {
      turns = { operations: new Semaphore(limits.fileOperationsMax), waiting: 0, transfers: 0 };
      this.#turns.set(sandbox, turns);
    }
    return turns;
  }
}

/** Where the root is the host's file system nobody is root in it: the user of the host asks. */
function placeIn({ row: { hostRoot } }: Sandbox, place: Place): Place {
  if (hostRoot === null || place.as !== undefined) return place;
  return { ...place, as: { uid: hostRoot.uid, gid: hostRoot.gid } };
}

async function whoIs({ as }: Place, files: GuestFileSystem): Promise<AsUser> {
  if (as === undefined) return {};
  return { as: typeof as === 'string' ? await findUser(files, as) : as };
}

/** Between the end of a wait and who waited others have a turn: the sandbox may stop, or be removed, in it. */
async function readyFiles(sandbox: Sandbox): Promise<GuestFileSystem> {
  let instance = await sandbox.ready();
  while (!sandbox.isAt(instance)) instance = await sandbox.ready();
  return sandbox.guest.files;
}

/** The state that was chosen from is the one that is sent. */
async function open(
  files: GuestFileSystem,
  place: Place,
  choose: (stat: FileStat) => FileRange | undefined,
): Promise<{
  readonly opened: Awaited<ReturnType<GuestFileSystem['open']>>;
  readonly range: FileRange | undefined;
}> {
  const who = await whoIs(place, files);
  for (let tries = 1; ; tries += 1) {
    const seen = await files.stat(place.path, { ...who, followLinks: true });
    const range = choose(seen);
    const opened = await files.open(place.path, { ...who, ...range });
    const { inode, changedUs, size } = opened.stat;
    if (inode === seen.inode && changedUs === seen.changedUs && size === seen.size) return { opened, range };
    // Written to without a pause, by a program that logs: whatever is chosen holds only for a moment.
    if (tries === openTries && range === undefined) return { opened, range };
    opened[Symbol.dispose]();
    if (tries === openTries) {
      throw new AppError(
        'file_busy',
        'The file changes faster than a range of it can be chosen: read all of it',
      );
    }
  }
}

/** Cut to what was promised; less is an error, so that the client's connection ends and not its wait. */
async function* exactly(
  data: AsyncIterable<Buffer>,
  promised: number | undefined,
): AsyncGenerator<Buffer, void, void> {
  let left = promised ?? Number.POSITIVE_INFINITY;
  for await (const chunk of data) {
    if (left === 0) return;
    const part = chunk.subarray(0, left);
    left -= part.length;
    yield part;
  }
  if (promised !== undefined && left > 0) {
    throw new AppError('file_failed', `The file became ${left} bytes shorter while it was read`);
  }
}

/** Bytes that move are a use of the sandbox. */
async function* moved<T extends Uint8Array>(
  sandbox: Sandbox,
  data: AsyncIterable<T>,
  kills?: UpperKills,
): AsyncGenerator<T, void, void> {
  for await (const chunk of data) {
    sandbox.activity.touch();
    kills?.sent(chunk.length);
    yield chunk;
  }
}

async function all<T>(
  found: AsyncGenerator<T, boolean, void>,
): Promise<{ readonly items: T[]; readonly isTruncated: boolean }> {
  const items: T[] = [];
  for (;;) {
    const next = await found.next();
    if (next.done === true) return { items, isTruncated: next.value };
    items.push(next.value);
  }
}

/** What the kernel does not move: a directory of a layer, or anything to another file system. */
async function moveByCopy(
  files: GuestFileSystem,
  { from, to }: { readonly from: Place; readonly to: GuestFilePath },
  options: Placing & { readonly signal: AbortSignal },
): Promise<void> {
  const who = options.as === undefined ? {} : { as: options.as };
  const { type, target } = await files.stat(from.path, who);
  if (type === 'symlink' && target !== undefined) await files.link(to, target, options);
  else await files.copy({ from: from.path, to }, { ...options, recursive: true }, options.signal);
  await files.remove(from.path, { ...who, recursive: true }, options.signal);
}
