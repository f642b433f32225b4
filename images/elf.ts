/** What an ELF program or kernel module says of itself: which libraries it needs, and lines that the kernel's modules have. */
import { Failure } from '@squash/base/failure';

const programLoad = 1;
const programDynamic = 2;
const programInterpreter = 3;
const dynamicNeeded = 1n;
const dynamicStrings = 5n;

interface Segment {
  readonly type: number;
  readonly offset: number;
  readonly address: bigint;
  readonly size: number;
}

/**
 * Names of libraries as the dynamic linker looks for them, and the path of that one.
 *
 * @throws elf_malformed where it is no 64-bit ELF file of a little-endian machine
 */
export function neededLibraries(file: Buffer, name: string): readonly string[] {
  try {
    const segments = segmentsOf(file);
    const interpreter = segments.find(({ type }) => type === programInterpreter);
    const linker = interpreter === undefined ? [] : [textAt(file, interpreter.offset)];
    return [...linker, ...dynamicNames(file, segments)];
  } catch (cause) {
    throw new Failure('elf_malformed', `"${name}" is no program or library that can be read`, { cause });
  }
}

function segmentsOf(file: Buffer): readonly Segment[] {
  const isElf = file.readUInt32BE(0) === 0x7f_45_4c_46;
  const is64LittleEndian = file.readUInt16LE(4) === 0x01_02;
  if (!isElf || !is64LittleEndian) throw new Failure('elf_malformed', 'not ELF');
  const start = Number(file.readBigUInt64LE(32));
  const size = file.readUInt16LE(54);
  return Array.from({ length: file.readUInt16LE(56) }, (_, index) => {
    const at = start + index * size;
    return {
      type: file.readUInt32LE(at),
      offset: Number(file.readBigUInt64LE(at + 8)),
      address: file.readBigUInt64LE(at + 16),
      size: Number(file.readBigUInt64LE(at + 32)),
    };
  });
}

function dynamicNames(file: Buffer, segments: readonly Segment[]): readonly string[] {
  const dynamic = segments.find(({ type }) => type === programDynamic);
  if (dynamic === undefined) return [];
  const names: number[] = [];
  let strings = 0n;
  for (let at = dynamic.offset; at < dynamic.offset + dynamic.size; at += 16) {
    const tag = file.readBigInt64LE(at);
    const value = file.readBigUInt64LE(at + 8);
    if (tag === dynamicNeeded) names.push(Number(value));
    if (tag === dynamicStrings) strings = value;
  }
  const table = offsetOf(strings, segments);
  return names.map((name) => textAt(file, table + name));
}

function offsetOf(address: bigint, segments: readonly Segment[]): number {
  const holding = segments.find(
    (each) =>
      each.type === programLoad && address >= each.address && address < each.address + BigInt(each.size),
  );
  if (holding === undefined) throw new Failure('elf_malformed', 'an address outside of the file');
  return holding.offset + Number(address - holding.address);
}

function textAt(file: Buffer, offset: number): string {
  return file.toString('latin1', offset, file.indexOf(0, offset));
}

/** Modules that a kernel module needs, as `depends=` of its section `.modinfo` names them. */
export function neededModules(file: Buffer): readonly string[] {
  const start = file.indexOf('\0depends=', 0, 'latin1');
  if (start < 0) return [];
  const value = textAt(file, start + '\0depends='.length);
  return value === '' ? [] : value.split(',');
}
