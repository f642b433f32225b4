/** The same where the sandbox's root and the daemon are one id for the kernel. */
import { thisTurn } from '../support/turn.ts';
import { fileOperationAttempts } from './attempts/file-operations.ts';
import { runFileAttempts } from './run-file-attempts.ts';

runFileAttempts('single-id sandbox', { env: { SQUASH_IDS: 'single' } }, thisTurn(fileOperationAttempts));
