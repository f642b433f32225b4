/**
 * Writes the `newc` cpio archive that Linux takes as an initramfs. Debian's `cpio` is not on every machine
 * and the format is one fixed header per file.
 */

export interface CpioEntry {
  readonly path: string;
  /** File type and permission bits together, e.g. 0o100755. */
  readonly mode: number;
  readonly data: Buffer;
}

export function directoryEntry(path: string): CpioEntry {
  return { path, mode: 0o040755, data: Buffer.alloc(0) };
}

export function fileEntry(path: string, data: Buffer, permissions = 0o644): CpioEntry {
  return { path, mode: 0o100000 | permissions, data };
}

/** Parents must come before what is in them. */
export function writeCpio(entries: readonly CpioEntry[]): Buffer {
  const trailer: CpioEntry = { path: 'TRAILER!!!', mode: 0, data: Buffer.alloc(0) };
  return Buffer.concat([...entries, trailer].flatMap((entry, index) => record(entry, index + 1)));
}

function record(entry: CpioEntry, inode: number): Buffer[] {
  const name = Buffer.from(`${entry.path}\0`);
  const links = entry.mode >> 12 === 4 ? 2 : 1;
  // inode, mode, uid, gid, links, mtime, size, device (major, minor) twice, name length, checksum
  const numbers = [inode, entry.mode, 0, 0, links, 0, entry.data.length, 0, 0, 0, 0, name.length, 0];
  const header = `070701${numbers.map((number) => number.toString(16).padStart(8, '0')).join('')}`;
  return [padded(Buffer.concat([Buffer.from(header), name])), padded(entry.data)];
}

function padded(bytes: Buffer): Buffer {
  return Buffer.concat([bytes, Buffer.alloc((4 - (bytes.length % 4)) % 4)]);
}
