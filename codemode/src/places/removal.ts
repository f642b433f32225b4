/**
 * A worker whose client here is not the process itself: a container, a sandbox. What holds it is removed, whether it ended or is to end, and
 * only then is it gone.
 */
import type { Exit, PlacedWorker } from './place.ts';

export interface Holder {
  /** False where it was not there: its client may have been about to make it. */
  remove(): Promise<boolean>;
  /** Asked of an end that nobody here wanted. */
  endedForMemory(exit: Exit): boolean;
}

export function withRemoval(placed: PlacedWorker, holder: Holder): PlacedWorker {
  let removed: Promise<boolean> | undefined;
  // Where it fails it is gone already, or who keeps it is: whoever starts the next one looks for what is left, or its lifetime ends it.
  const tryRemove = () => holder.remove().catch(() => false);
  const remove = () => (removed ??= tryRemove());
  return {
    ...placed,
    kill() {
      void remove().then(() => placed.kill());
    },
    exited: placed.exited.then(async (exit): Promise<Exit> => {
      const isWanted = removed !== undefined;
      // A client that has ended makes nothing any more.
      if (!(await remove())) await tryRemove();
      return { ...exit, outOfMemory: exit.outOfMemory || (!isWanted && holder.endedForMemory(exit)) };
    }),
  };
}
