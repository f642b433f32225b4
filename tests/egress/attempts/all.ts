/** Every attempt, in the order of its class. `docs/network.md` has a row for each. */
import type { Attempt } from '../attempt.ts';
import { addressAttempts } from './addresses.ts';
import { httpAttempts } from './http.ts';
import { networkAttempts } from './network.ts';
import { secretAttempts } from './secrets.ts';

export const attempts: readonly Attempt[] = [
  ...addressAttempts,
  ...httpAttempts,
  ...networkAttempts,
  ...secretAttempts,
];
