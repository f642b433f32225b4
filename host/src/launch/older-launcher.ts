/** A launcher outlives upgrades of the daemon, and knows no request that came after it: it calls that an invalid one. */
import { AppError } from '@squash/contract/errors';

/** @param what what needs a newer one. @throws launch_failed with the remedy, or the error as it is */
export function refusedByOlder(error: unknown, what: string): never {
  if (!(error instanceof AppError) || error.code !== 'invalid_request') throw error;
  throw new AppError(
    'launch_failed',
    `Cannot ${what}: squash-launch is of an earlier release: squash stop --all, squash serve`,
    { cause: error },
  );
}
