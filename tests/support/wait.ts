/**
 * Waiting for a condition with a deadline: what tests use instead of sleeping.
 */
import { setTimeout as delay } from 'node:timers/promises';

/** Deadlines, and pauses between two looks, are so many times as long in a machine that is emulated: tests/vm says it there. */
export const patience = Number(process.env['TEST_PATIENCE'] ?? 1);

/** The first value that is not undefined or false. @throws after `deadlineMs`, with what was waited for */
export async function waitFor<T>(
  what: string,
  look: () => Promise<T | undefined | false> | T | undefined | false,
  deadlineMs = 20_000,
): Promise<T> {
  const waitedMs = deadlineMs * patience;
  const endMs = performance.now() + waitedMs;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > endMs) throw new Error(`waited ${waitedMs} ms in vain: ${what}`);
    await delay(20 * patience);
  }
}
