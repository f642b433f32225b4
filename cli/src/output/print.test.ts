/** How values are shown to people. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { formatAge, formatBytes, visible } from './print.ts';
import { progressLine } from './progress.ts';

describe('print', () => {
  it('visible makes escape sequences and bidirectional overrides harmless and leaves text alone', () => {
    assert.equal(visible('a\u001b[31mb\nc\td\u009b\u202e'), String.raw`a\u{1b}[31mb\nc\td\u{9b}\u{202e}`);
    assert.equal(visible('grün 漢字 ✓ ⚠\ufe0f'), 'grün 漢字 ✓ ⚠\ufe0f');
    // An identifier of JavaScript that nobody sees, and names that look like others.
    assert.equal(
      visible('let \u3164, a\ufe0f\u034f\u{e0101}'),
      String.raw`let \u{3164}, a\u{fe0f}\u{34f}\u{e0101}`,
    );
  });

  it('formatBytes never shows four digits', () => {
    const cases = [
      [0, '0 B'],
      [999, '999 B'],
      [1000, '1.0 kB'],
      [99_949, '99.9 kB'],
      [99_951, '100 kB'],
      [999_499, '999 kB'],
      [999_500, '1.0 MB'],
      [5_000_000_000_000, '5.0 TB'],
    ] as const;
    for (const [bytes, text] of cases) assert.equal(formatBytes(bytes), text);
  });

  it('formatAge counts in the unit a person would', () => {
    const now = Date.parse('2026-01-02T00:00:00Z');
    assert.equal(formatAge('2026-01-01T23:59:59Z', now), '1s');
    assert.equal(formatAge('2026-01-01T23:50:00Z', now), '10m');
    assert.equal(formatAge('2026-01-01T00:00:00Z', now), '24h');
    assert.equal(formatAge('2025-12-01T00:00:00Z', now), '32d');
    assert.equal(formatAge('2027-01-01T00:00:00Z', now), '0s');
    assert.equal(formatAge('nonsense', now), '?');
  });

  it('progressLine shows the share where the total is known', () => {
    assert.equal(
      progressLine(50, { label: 'm', bytes: 100 }),
      'm  [############............] 50%  50 B of 100 B',
    );
    assert.equal(progressLine(2000, { label: 'm', bytes: undefined }), 'm  2.0 kB');
  });
});
