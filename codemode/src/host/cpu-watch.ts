/**
 * Ends a run that has used its processor time. A process can use no more than it was given, so the next look is due when the rest of the
 * budget could be used up at the earliest: a run that waits is looked at rarely, one that computes about when it is over.
 */
export interface CpuWatch {
  /** Milliseconds used since the start. */
  used(): number | undefined;
  stop(): void;
}

/** The kernel counts in hundredths of a second; looking more often would see nothing new. */
const lookMsMin = 20;

/** Threads that an engine's process computes with at the same time: the code's and the collector's. */
const threadsMax = 2;

export function watchCpu(read: () => number | undefined, budgetMs: number, onOver: () => void): CpuWatch {
  const began = read();
  const used = () => {
    const now = read();
    return began === undefined || now === undefined ? undefined : now - began;
  };
  let timer: NodeJS.Timeout | undefined;
  const look = () => {
    const ms = used();
    if (ms === undefined) return;
    if (ms >= budgetMs) onOver();
    else timer = setTimeout(look, Math.max(lookMsMin, (budgetMs - ms) / threadsMax));
  };
  if (began !== undefined) timer = setTimeout(look, Math.max(lookMsMin, budgetMs / threadsMax));
  return { used, stop: () => clearTimeout(timer) };
}
