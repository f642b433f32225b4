/**
 * Every attempt where there is only one id: the sandbox's root and the daemon are the same for the kernel, so
 * that the other walls stand alone.
 */
import { runAttempts } from './run-attempts.ts';

runAttempts('single-id sandbox', { env: { SQUASH_IDS: 'single' } });
