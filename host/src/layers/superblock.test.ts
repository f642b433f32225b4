/** The superblock check, against the real tool's output and against anything at all. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { superblockBytes, superblockFault } from './superblock.ts';

function realImage(): Buffer {
  const directory = mkdtempSync(join(tmpdir(), 'squash-superblock-'));
  try {
    writeFileSync(join(directory, 'file'), 'content');
    const image = join(directory, 'image.squashfs');
    execFileSync('mksquashfs', [join(directory, 'file'), image, '-quiet', '-no-progress']);
    return readFileSync(image);
  } finally {
    rmSync(directory, { recursive: true });
  }
}

const image = realImage();
const head = image.subarray(0, superblockBytes);

test('superblockFault finds nothing wrong with an image of mksquashfs', () => {
  assert.equal(superblockFault(head, image.length), undefined);
});

test('superblockFault refuses each field that is out of range', () => {
  const faults = [
    (copy: Buffer) => copy.writeUInt32LE(0, 0),
    (copy: Buffer) => copy.writeUInt32LE(0, 4),
    (copy: Buffer) => copy.writeUInt32LE(0xffff_ffff, 4),
    (copy: Buffer) => copy.writeUInt32LE(4095, 12),
    (copy: Buffer) => copy.writeUInt16LE(2, 20),
    (copy: Buffer) => copy.writeUInt16LE(31, 22),
    (copy: Buffer) => copy.writeUInt16LE(3, 28),
    (copy: Buffer) => copy.writeBigUInt64LE(2n ** 63n, 40),
    (copy: Buffer) => copy.writeBigUInt64LE(2n ** 64n - 1n, 64),
  ];
  for (const [index, damage] of faults.entries()) {
    const copy = Buffer.from(head);
    damage(copy);
    assert.notEqual(superblockFault(copy, image.length), undefined, `fault ${index}`);
  }
});

test('superblockFault refuses an image that is cut off anywhere', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: image.readUInt32LE(40) - 1 }), (length) => {
      assert.notEqual(
        superblockFault(image.subarray(0, Math.min(length, superblockBytes)), length),
        undefined,
      );
    }),
  );
});

test('superblockFault answers any bytes with a sentence and never throws', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 128 }), fc.nat(), (bytes, size) => {
      const fault = superblockFault(Buffer.from(bytes), size);
      assert.equal(typeof fault, 'string');
    }),
  );
});
