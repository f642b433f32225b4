/** How a file's record of the API looks to a client of SFTP. */
import type { FileInfo } from '@squash/contract/file';
import { attributes, integer, string } from './packets.ts';

const typeBits: Readonly<Record<FileInfo['type'], number>> = {
  fifo: 0o010000,
  device: 0o020000,
  directory: 0o040000,
  file: 0o100000,
  symlink: 0o120000,
  socket: 0o140000,
};
const typeLetters: Readonly<Record<FileInfo['type'], string>> = {
  fifo: 'p',
  device: 'c',
  directory: 'd',
  file: '-',
  symlink: 'l',
  socket: 's',
};

export function attributesOf(file: FileInfo): Buffer {
  return attributes({
    size: file.size,
    owner: { uid: file.uid, gid: file.gid },
    permissions: typeBits[file.type] | Number.parseInt(file.mode, 8),
    modified: Math.max(0, Math.floor(Date.parse(file.modified_at) / 1_000)),
  });
}

export function pathBytes(file: Pick<FileInfo, 'path' | 'path_base64'>): Buffer {
  return file.path_base64 === undefined ? Buffer.from(file.path) : Buffer.from(file.path_base64, 'base64');
}

export function targetBytes(file: FileInfo): Buffer {
  return file.target_base64 === undefined
    ? Buffer.from(file.target ?? '')
    : Buffer.from(file.target_base64, 'base64');
}

/** One entry of a `name` answer: the name, a line as `ls -l` has it, the attributes. */
export function nameEntry(file: FileInfo): Buffer {
  const name = pathBytes(file);
  const words = [
    modeText(file),
    '  1',
    `${file.uid}`.padEnd(8),
    `${file.gid}`.padEnd(8),
    `${file.size}`.padStart(8),
  ];
  const line = Buffer.concat([Buffer.from(`${words.join(' ')} ${dateText(file.modified_at)} `), name]);
  return Buffer.concat([string(name), string(line), attributesOf(file)]);
}

export function names(entries: readonly Buffer[]): Buffer {
  return Buffer.concat([integer(entries.length), ...entries]);
}

function modeText({ type, mode }: FileInfo): string {
  const bits = Number.parseInt(mode, 8);
  const letters = 'rwxrwxrwx'.split('').map((letter, at) => ((bits & (0o400 >> at)) === 0 ? '-' : letter));
  const special = (bit: number, at: number, letter: string): void => {
    if ((bits & bit) !== 0) letters[at] = letters[at] === '-' ? letter.toUpperCase() : letter;
  };
  special(0o4000, 2, 's');
  special(0o2000, 5, 's');
  special(0o1000, 8, 't');
  return `${typeLetters[type]}${letters.join('')}`;
}

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const halfYearMs = 182 * 86_400_000;

/** As `ls` writes it: with the time of day for what is new, with the year for what is not. */
function dateText(modifiedAt: string): string {
  const date = new Date(modifiedAt);
  const day = `${months[date.getUTCMonth()] ?? ''} ${`${date.getUTCDate()}`.padStart(2)}`;
  const isNew = Math.abs(Date.now() - date.getTime()) < halfYearMs;
  return `${day} ${isNew ? modifiedAt.slice(11, 16) : ` ${date.getUTCFullYear()}`}`;
}
