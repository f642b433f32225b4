/**
 * Waiting for a condition with a deadline: what tests use instead of sleeping.
 */
import { setTimeout as delay } from 'node:timers/promises';

/** The first value that is not undefined or false. @throws after `deadlineMs`, with what was waited for */
export async function waitFor<T>(
  what: string,
  look: () => Promise<T | undefined | false> | T | undefined | false,
  deadlineMs = 20_000,
): Promise<T> {
  const endMs = performance.now() + deadlineMs;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > endMs) throw new Error(`waited ${deadlineMs} ms in vain: ${what}`);
    await delay(20);
  }
}
