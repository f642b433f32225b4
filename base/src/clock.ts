/**
 * Time as a value that is handed in: wall time for what people and the database see, monotonic time for waits.
 * The two are different types, so that a wall clock that jumps never shortens a wait.
 */
declare const wall: unique symbol;
declare const mono: unique symbol;
/** Milliseconds since 1970, UTC. */
export type WallMs = number & { readonly [wall]: true };
/** Milliseconds since some moment of this process. */
export type MonoMs = number & { readonly [mono]: true };

export interface Clock {
  wallMs(): WallMs;
  monoMs(): MonoMs;
}

export const systemClock: Clock = {
  wallMs: () => Date.now() as WallMs,
  monoMs: () => performance.now() as MonoMs,
};

/**
 * Wall time that goes on from this moment by the monotonic clock: for the end of what begins now, which then is as long
 * after it as it took, however the wall clock is set meanwhile. Whole milliseconds, not before `notBeforeMs`, which an
 * earlier process wrote.
 */
export function steadyWallMs(clock: Clock, notBeforeMs: number): () => number {
  const beganMs = Math.max(notBeforeMs, clock.wallMs());
  const beganMonoMs = clock.monoMs();
  return () => beganMs + Math.round(clock.monoMs() - beganMonoMs);
}

/** RFC 3339 with milliseconds, UTC. */
export function rfc3339(ms: number): string {
  return new Date(ms).toISOString();
}
