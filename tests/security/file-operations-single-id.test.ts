/** The same where the sandbox's root and the daemon are one id for the kernel. */
import { runFileAttempts } from './run-file-attempts.ts';

runFileAttempts('single-id sandbox', { env: { SQUASH_IDS: 'single' } });
