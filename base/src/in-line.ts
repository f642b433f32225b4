/**
 * Waiting for a turn as long as somebody wants it. Who gives up is taken out of the line, so that a line is never longer
 * than the number of those who wait: on a plain promise each of them would leave something behind.
 */
export interface Line {
  readonly enter: (begin: () => void) => void;
  /** Of one whose turn has come already nothing is known any more. */
  readonly leave: (begin: () => void) => void;
}

/** In the order of a set, from which whoever gives a turn takes its `begin`. */
export function lineOf(waiting: Set<() => void>): Line {
  return { enter: (begin) => waiting.add(begin), leave: (begin) => waiting.delete(begin) };
}

/**
 * Resolves when `begin` is called; then the turn is the caller's to give back, also where the signal aborts in that moment.
 * @throws the signal's reason
 */
export async function waitInLine({ enter, leave }: Line, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const giveUp = (): void => {
    leave(resolve);
    reject(signal.reason);
  };
  signal.addEventListener('abort', giveUp, { once: true });
  enter(resolve);
  try {
    await promise;
  } finally {
    signal.removeEventListener('abort', giveUp);
  }
}
