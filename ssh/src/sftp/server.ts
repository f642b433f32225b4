/**
 * The `sftp` subsystem, which `sftp` and `scp` speak: each request becomes an operation on the sandbox's files, so it needs no program in
 * the sandbox, and has the rights of the user who has logged in.
 *
 * Requests are answered one after the other, in their order. The client has many on their way, so nothing waits for it; and a request
 * that is not read yet stays in the channel, whose window is bounded.
 */
import { ApiError, refusalOf } from '../daemon.ts';
import { type ChannelPipe, ChannelGoneError } from '../channel.ts';
import type { Login } from '../connection.ts';
import { Handles } from './handles.ts';
import { attributesOf, names, targetBytes } from './listing.ts';
import { absolute, homeOf, normal } from './paths.ts';
import {
  BadPacketError,
  dataBytesMax,
  integer,
  long,
  packet,
  packetBytesMax,
  packetsOf,
  Reader,
  type StatusCode,
  statusCodes,
  string,
  types,
} from './packets.ts';
import { RemoteFiles } from './remote-files.ts';
import { SftpError } from './sftp-error.ts';

/** Longest password file that is looked at for a home. */
const passwdBytesMax = 1_048_576;
const openFlags = { read: 1, write: 2, append: 4, create: 8, truncate: 16, exclusive: 32 } as const;

/** Resolves when the client has ended. @throws BadPacketError, ChannelGoneError, ApiError where the sandbox or its user is none */
export async function serveSftp(login: Login, pipe: ChannelPipe): Promise<void> {
  const files = new RemoteFiles(login);
  using handles = new Handles(files);
  const home = Buffer.from(await findHome(login, files));
  const session = new Sftp(files, handles, home);
  for await (const bytes of packetsOf(pipe.input())) await pipe.write(await session.answer(bytes));
}

async function findHome({ user }: Login, files: RemoteFiles): Promise<string> {
  const name = user ?? 'root';
  const missing = user === undefined ? '/root' : '';
  const answer = await files.read(Buffer.from('/etc/passwd'), { offset: 0, length: passwdBytesMax });
  if ((answer.statusCode ?? 0) >= 300) {
    const refusal = await refusalOf(answer);
    if (['file_not_found', 'not_a_file', 'permission_denied'].includes(refusal.code)) return missing;
    throw refusal;
  }
  const parts: Buffer[] = [];
  for await (const part of answer) parts.push(part as Buffer);
  return homeOf(Buffer.concat(parts).toString(), name) || missing;
}

class Sftp {
  readonly #files: RemoteFiles;
  readonly #handles: Handles;
  readonly #home: Buffer;

  constructor(files: RemoteFiles, handles: Handles, home: Buffer) {
    this.#files = files;
    this.#handles = handles;
    this.#home = home;
  }

  /** @throws BadPacketError, ChannelGoneError */
  async answer(bytes: Buffer): Promise<Buffer> {
    const reader = new Reader(bytes);
    const type = reader.byte();
    if (type === types.init) return this.#version();
    const id = integer(reader.integer());
    try {
      const { type: kind, fields } = await this.#act(type, reader);
      return packet(kind, id, ...fields);
    } catch (error) {
      if (error instanceof BadPacketError || error instanceof ChannelGoneError) throw error;
      const { status, message } = statusOf(error);
      return packet(types.status, id, integer(status), string(message), string('en'));
    }
  }

  #version(): Buffer {
    const extensions = Object.entries(extensionVersions).flat();
    return packet(types.version, integer(3), ...extensions.map((text) => string(text)));
  }

  async #act(type: number, reader: Reader): Promise<Answer> {
    switch (type) {
      case types.open:
        return await this.#open(reader);
      case types.close:
        await this.#handles.close(reader.bytes());
        return done;
      case types.read:
        return await this.#read(reader);
      case types.write: {
        const file = this.#handles.file(reader.bytes());
        const offset = reader.long();
        if (!file.mode.writes) throw new SftpError(statusCodes.permissionDenied, 'not opened for writing');
        await file.write(offset, reader.bytes());
        return done;
      }
      case types.opendir:
        return {
          type: types.handle,
          fields: [string(await this.#handles.openDirectory(this.#path(reader)))],
        };
      case types.readdir: {
        const entries = await this.#handles.directory(reader.bytes()).next();
        if (entries.length === 0) throw new SftpError(statusCodes.eof, 'no more entries');
        return { type: types.name, fields: [names(entries)] };
      }
      case types.extended:
        return await this.#extended(reader);
      default:
        return await this.#actOnPath(type, reader);
    }
  }

  async #actOnPath(type: number, reader: Reader): Promise<Answer> {
    const files = this.#files;
    switch (type) {
      case types.lstat:
      case types.stat: {
        const found = await files.stat(this.#path(reader), type === types.stat);
        return { type: types.attributes, fields: [attributesOf(found)] };
      }
      case types.fstat: {
        const file = this.#handles.file(reader.bytes());
        await file.flush();
        return { type: types.attributes, fields: [attributesOf(await files.stat(file.path, true))] };
      }
      case types.setstat:
        await files.change(this.#path(reader), reader.attributes());
        return done;
      case types.fsetstat: {
        const file = this.#handles.file(reader.bytes());
        await file.flush();
        await files.change(file.path, reader.attributes());
        return done;
      }
      case types.remove:
      case types.rmdir: {
        const path = this.#path(reader);
        const isDirectory = (await files.stat(path, false)).type === 'directory';
        if (isDirectory !== (type === types.rmdir))
          throw new SftpError(statusCodes.failure, isDirectory ? 'it is a directory' : 'it is no directory');
        await files.remove(path);
        return done;
      }
      case types.mkdir:
        await files.makeDirectory(this.#path(reader), reader.attributes().permissions);
        return done;
      case types.rename:
        await files.move(this.#path(reader), this.#path(reader), false);
        return done;
      case types.symlink: {
        // In this order, other than the draft has it: as OpenSSH and all clients do.
        const target = reader.bytes();
        await files.link(this.#path(reader), target, false);
        return done;
      }
      case types.readlink: {
        const found = await files.stat(this.#path(reader), false);
        if (found.type !== 'symlink') throw new SftpError(statusCodes.failure, 'it is no symbolic link');
        return bareName(targetBytes(found));
      }
      case types.realpath:
        return bareName(normal(this.#path(reader)));
      default:
        throw new SftpError(statusCodes.unsupported, 'this server has no such request');
    }
  }

  async #open(reader: Reader): Promise<Answer> {
    const path = this.#path(reader);
    const wanted = reader.integer();
    const { permissions } = reader.attributes();
    const has = (flag: keyof typeof openFlags): boolean => (wanted & openFlags[flag]) !== 0;
    const mode = { reads: has('read'), writes: has('write'), appends: has('append') };
    const handle = await this.#handles.openFile(path, mode, {
      creates: has('create'),
      truncates: has('truncate'),
      isNew: has('create') && has('exclusive'),
      permissions,
    });
    return { type: types.handle, fields: [string(handle)] };
  }

  async #read(reader: Reader): Promise<Answer> {
    const file = this.#handles.file(reader.bytes());
    const offset = reader.long();
    const length = Math.min(reader.integer(), dataBytesMax);
    if (!file.mode.reads) throw new SftpError(statusCodes.permissionDenied, 'not opened for reading');
    const data = length === 0 ? Buffer.alloc(0) : await file.read(offset, length);
    if (data.length === 0) throw new SftpError(statusCodes.eof, 'end of file');
    return { type: types.data, fields: [integer(data.length), data] };
  }

  async #extended(reader: Reader): Promise<Answer> {
    switch (reader.text()) {
      case 'posix-rename@openssh.com':
        await this.#files.move(this.#path(reader), this.#path(reader), true);
        return done;
      case 'hardlink@openssh.com': {
        const target = this.#path(reader);
        await this.#files.link(this.#path(reader), target, true);
        return done;
      }
      case 'fsync@openssh.com':
        await this.#handles.file(reader.bytes()).flush();
        return done;
      case 'limits@openssh.com':
        return {
          type: types.extendedReply,
          fields: [
            long(packetBytesMax),
            long(dataBytesMax),
            long(dataBytesMax),
            long(this.#handles.countMax),
          ],
        };
      case 'expand-path@openssh.com':
        return bareName(normal(absolute(expanded(reader.bytes()), this.#home)));
      default:
        throw new SftpError(statusCodes.unsupported, 'this server has no such extension');
    }
  }

  #path(reader: Reader): Buffer {
    const path = reader.bytes();
    if (path.includes(0)) throw new SftpError(statusCodes.failure, 'a path holds no NUL');
    return absolute(path, this.#home);
  }
}

interface Answer {
  readonly type: number;
  readonly fields: readonly Uint8Array[];
}

const done: Answer = {
  type: types.status,
  fields: [integer(statusCodes.ok), string(''), string('en')],
};

const extensionVersions = {
  'posix-rename@openssh.com': '1',
  'hardlink@openssh.com': '1',
  'fsync@openssh.com': '1',
  'limits@openssh.com': '1',
  'expand-path@openssh.com': '1',
} as const;

/** One name, of which nothing else is told. */
function bareName(path: Buffer): Answer {
  return { type: types.name, fields: [integer(1), string(path), string(path), integer(0)] };
}

/** `~` and what is below it; another user's home is not looked for. */
function expanded(path: Buffer): Buffer {
  const text = path.toString('latin1');
  if (text !== '~' && !text.startsWith('~/')) {
    if (text.startsWith('~')) throw new SftpError(statusCodes.noSuchFile, 'only your own home is known');
    return path;
  }
  return Buffer.from(`.${text.slice(1)}`, 'latin1');
}

function statusOf(error: unknown): { readonly status: StatusCode; readonly message: string } {
  if (error instanceof SftpError) return error;
  if (!(error instanceof ApiError)) {
    return { status: statusCodes.failure, message: error instanceof Error ? error.message : 'it failed' };
  }
  const { message } = error;
  if (['file_not_found', 'not_a_directory'].includes(error.code))
    return { status: statusCodes.noSuchFile, message };
  if (['permission_denied', 'forbidden', 'unauthorized'].includes(error.code))
    return { status: statusCodes.permissionDenied, message };
  return { status: statusCodes.failure, message };
}
