/** Output cut into messages: every byte once, whatever pieces it comes in and wherever a daemon dies. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { OutputCutter } from './output.ts';
import type { Piece } from './ports.ts';

/** The text in pieces, with what went to stderr between them. */
function piecesOf(text: string, cuts: readonly number[]): readonly Piece[] {
  const bytes = Buffer.from(text);
  const pieces: Piece[] = [];
  let seq = 0;
  let at = 0;
  for (const cut of [...cuts, bytes.length]) {
    const data = bytes.subarray(at, Math.min(bytes.length, at + cut));
    at += data.length;
    pieces.push({ seq: (seq += data.length), stream: 'stdout', data });
    pieces.push({ seq: (seq += 3), stream: 'stderr', data: Buffer.from('err') });
  }
  return pieces;
}

/** What of the pieces lies behind a position, as an engine gives it. */
function after(pieces: readonly Piece[], position: number): readonly Piece[] {
  return pieces.flatMap((piece) => {
    const from = piece.seq - piece.data.length;
    if (piece.seq <= position) return [];
    return [{ ...piece, data: piece.data.subarray(Math.max(0, position - from)) }];
  });
}

test('a cutter tells every byte once and no half characters, also one that goes on for another', () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'é', '€', '😀', '\n'), maxLength: 200 });
  const cuts = fc.array(fc.integer({ min: 0, max: 9 }), { maxLength: 60 });
  fc.assert(
    fc.property(text, cuts, fc.nat(70), (whole, at, died) => {
      const pieces = piecesOf(whole, at);
      const start = { position: 0, told: 0, bytesMax: 1_000_000, isTruncated: false };
      const first = new OutputCutter(start);
      const said = pieces.slice(0, died).flatMap((piece) => first.take(piece));
      const told = said.reduce((sum, { bytes }) => sum + bytes, 0);
      const second = new OutputCutter({ ...start, position: first.position, told });
      said.push(...after(pieces, first.position).flatMap((piece) => second.take(piece)), ...second.rest());
      assert.equal(said.map((each) => each.text).join(''), whole);
    }),
  );
});

test('a cutter tells no more than the bound, and says that there was more', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', minLength: 1 }), fc.nat(40), (whole, bytesMax) => {
      const cutter = new OutputCutter({ position: 0, told: 0, bytesMax, isTruncated: false });
      const said = [...piecesOf(whole, [5, 5, 5]).flatMap((piece) => cutter.take(piece)), ...cutter.rest()];
      const bytes = said.reduce((sum, each) => sum + each.bytes, 0);
      assert.ok(bytes <= bytesMax);
      assert.equal(cutter.isTruncated, Buffer.byteLength(whole) > bytesMax);
    }),
  );
});
