/**
 * The kernel itself out of a `vmlinuz` of x86: a program of real mode, a decompressor, and the packed kernel. A virtual machine can start
 * the kernel by its PVH entry without the rest, which under emulation takes a third of the start; Firecracker takes nothing else. QEMU's
 * `microvm` has to have `qboot.rom` as its firmware then: behind its own one, SeaBIOS, the initrd is copied over the ACPI tables.
 *
 * The places are those of Documentation/arch/x86/boot.rst in Linux.
 */
import { zstdDecompressSync } from 'node:zlib';
import { Failure } from '@squash/base/failure';

const sector = 512;
const kernelBytesMax = 268_435_456;
const signature = 'HdrS';
const zstd = 0xfd_2f_b5_28;
const elf = 0x7f_45_4c_46;

/** @throws where it is no such image, or packed by another program than Debian's kernels are */
export function unpackedKernel(image: Buffer): Buffer {
  if (image.toString('latin1', 0x2_02, 0x2_06) !== signature) throw unknown('it is no image of x86');
  const sectors = image.readUInt8(0x1_f1) || 4;
  const start = (sectors + 1) * sector + image.readUInt32LE(0x2_48);
  // Its last four bytes say how long the kernel is.
  const payload = image.subarray(start, start + image.readUInt32LE(0x2_4c) - 4);
  if (payload.length < 4 || payload.readUInt32LE(0) !== zstd) throw unknown('it is not packed by zstd');
  const kernel = zstdDecompressSync(payload, { maxOutputLength: kernelBytesMax });
  if (kernel.readUInt32BE(0) !== elf) throw unknown('it holds no ELF file');
  return kernel;
}

function unknown(why: string): Failure {
  return new Failure('preset_wrong', `the kernel's image can't be unpacked: ${why}`);
}
