/** What a monitor that was taken over may send in its guest's name, and where it would lead whoever believed it. */
import { encodeFields } from '@squash/contract/guest/codec';
import { frameDataBytesMax, frameHeaderBytes, frameTypes } from '@squash/contract/guest/frames';
import { type RawEntry, tarOf } from '../support/image-archive.ts';

export interface TarLie {
  readonly id: string;
  readonly tar: (around: { readonly folder: string; readonly secretFile: string }) => Buffer;
  /** What GNU tar as root lets through: a name below the folder outside, or a line of the shell in the unpacked tree. */
  readonly control: string | undefined;
}

const climb = '../'.repeat(20);
const dots = (path: string): string => `${climb}${path.slice(1)}`;
/** Above what a header's digits hold. */
const negative = (header: Buffer): void => {
  header.fill(0xff, 124, 136);
  checksum(header);
};

function checksum(header: Buffer): void {
  header.write('        ', 148, 'latin1');
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
}

function device(name: string, flag: '3' | '4', [major, minor]: readonly [number, number]): RawEntry {
  return {
    name,
    flag,
    mode: 0o666,
    spoil: (header) => {
      header.write(`${major.toString(8).padStart(7, '0')}\0`, 329, 'latin1');
      header.write(`${minor.toString(8).padStart(7, '0')}\0`, 337, 'latin1');
      checksum(header);
    },
  };
}

export const tarLies: readonly TarLie[] = [
  {
    id: 'climbing-name',
    tar: ({ folder }) => tarOf([{ name: dots(`${folder}/e`), data: 'x' }]),
    control: 'e',
  },
  { id: 'absolute-name', tar: ({ folder }) => tarOf([{ name: `${folder}/e`, data: 'x' }]), control: 'e' },
  {
    id: 'link-out',
    tar: ({ folder }) =>
      tarOf([
        { name: 'out', flag: '2', target: folder },
        { name: 'out/e', data: 'x' },
      ]),
    control: 'e',
  },
  {
    id: 'hard-link-out',
    tar: ({ secretFile }) => tarOf([{ name: 'stolen', flag: '1', target: secretFile }]),
    control: 'cat stolen',
  },
  {
    id: 'hard-link-climbing',
    tar: ({ secretFile }) => tarOf([{ name: 'stolen', flag: '1', target: dots(secretFile) }]),
    control: 'cat stolen',
  },
  {
    id: 'device',
    tar: () => tarOf([device('stolen', '3', [1, 1]), device('disk', '4', [254, 0])]),
    control: 'test -c stolen',
  },
  {
    id: 'redirect',
    tar: () =>
      tarOf([
        {
          name: 'hostile/',
          pax: {
            'SCHILY.xattr.user.overlay.redirect': '/../../../../../../etc',
            'SCHILY.xattr.trusted.overlay.redirect': '/../../../../../../etc',
          },
        },
        {
          name: 'stolen',
          data: 'x',
          pax: {
            'SCHILY.xattr.user.overlay.metacopy': '',
            'SCHILY.xattr.user.overlay.redirect': '/../../../../../../etc/shadow',
          },
        },
      ]),
    control: undefined,
  },
  {
    id: 'size-of-gigabytes',
    tar: () => tarOf([{ name: 'stolen', data: 'x', size: 8_000_000_000 }]),
    control: undefined,
  },
  {
    id: 'size-below-zero',
    tar: () => tarOf([{ name: 'stolen', data: 'x', spoil: negative }]),
    control: undefined,
  },
  {
    id: 'long-name',
    tar: () => tarOf([{ name: 'short', data: 'x', pax: { path: 'a/'.repeat(20_000) } }]),
    control: undefined,
  },
  {
    id: 'many-names',
    tar: () => tarOf(Array.from({ length: 5_000 }, (_, at) => ({ name: `many/${at}/` }))),
    control: undefined,
  },
  { id: 'garbage', tar: () => Buffer.alloc(300_000, 'garbage'), control: undefined },
  {
    id: 'cut-off',
    tar: () => tarOf([{ name: 'stolen', data: 'x'.repeat(100_000) }]).subarray(0, 5_000),
    control: undefined,
  },
  { id: 'nothing', tar: () => Buffer.alloc(0), control: undefined },
];

/** As PID 1 of a guest answers `fileUpper`. */
export function framed(tar: Buffer): Buffer {
  const frames: Uint8Array[] = [];
  for (let at = 0; at < tar.length; at += frameDataBytesMax) {
    const part = tar.subarray(at, at + frameDataBytesMax);
    frames.push(header(frameTypes.data, part.length), part);
  }
  return Buffer.concat([...frames, encodeFields('end', [])]);
}

function header(type: number, length: number): Buffer {
  const bytes = Buffer.alloc(frameHeaderBytes);
  bytes.writeUInt32LE(length);
  bytes[4] = type;
  return bytes;
}

/** Answers to `exec`, as programs of the shell. The last two answer nothing that is enough, ever. */
export const frameLies: Readonly<Record<string, string>> = {
  garbage: 'head -c 100000 /dev/urandom',
  'longest-length': String.raw`printf '\377\377\377\377\201\0\0\0'; head -c 1000000 /dev/zero`,
  'unknown-type': String.raw`printf '\0\0\0\0\376\0\0\0'`,
  'exit-before-start': String.raw`printf '\0\0\0\0\204\0\0\0'`,
  'start-without-fields': String.raw`printf '\0\0\0\0\201\0\0\0'`,
  'output-before-start': String.raw`while printf '\0\4\0\0\202\0\0\0' && head -c 1024 /dev/zero; do :; done 2>/dev/null`,
  'end-at-once': ':',
  'byte-by-byte': String.raw`while printf '\0'; do sleep 1; done`,
  silence: 'sleep 1000',
};
