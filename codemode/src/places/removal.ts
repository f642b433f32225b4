/**
 * A worker whose client here is not the process itself: a container, a sandbox. What holds it is removed, once, whether it ended or is to end, and
 * only then is it gone.
 */
import type { Exit, PlacedWorker } from './place.ts';

export interface Holder {
  remove(): Promise<unknown>;
  /** Asked of an end that nobody here wanted. */
  endedForMemory(exit: Exit): boolean;
}

export function withRemoval(placed: PlacedWorker, holder: Holder): PlacedWorker {
  let removed: Promise<unknown> | undefined;
  const remove = () => {
    removed ??= holder.remove().catch(() => {
      // It is gone already, or who keeps it is: whoever starts the next one looks for what is left, or its lifetime ends it.
    });
    return removed;
  };
  return {
    ...placed,
    kill() {
      void remove().then(() => placed.kill());
    },
    exited: placed.exited.then(async (exit): Promise<Exit> => {
      const isWanted = removed !== undefined;
      await remove();
      return { ...exit, outOfMemory: exit.outOfMemory || (!isWanted && holder.endedForMemory(exit)) };
    }),
  };
}
