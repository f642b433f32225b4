/** All attempts, in the order in which they run: those that use up resources come last. */
import type { Attempt } from '../attempt.ts';
import { fileAttempts } from './files.ts';
import { kernelAttempts } from './kernel.ts';
import { outsideAttempts } from './outside.ts';
import { resourceAttempts } from './resources.ts';

export const attempts: readonly Attempt[] = [
  ...fileAttempts,
  ...kernelAttempts,
  ...outsideAttempts,
  ...resourceAttempts,
];
