/** What others do together, waited for by one who may give up: the work itself goes on for the rest. @throws the signal's reason */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return await work;
  const gone = Promise.withResolvers<never>();
  const leave = (): void => gone.reject(signal.reason);
  signal.addEventListener('abort', leave, { once: true });
  if (signal.aborted) leave();
  try {
    return await Promise.race([work, gone.promise]);
  } finally {
    // A signal may live as long as the process: what waited on it must not.
    signal.removeEventListener('abort', leave);
  }
}
