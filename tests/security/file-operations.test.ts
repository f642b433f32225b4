/** Every attempt at file operations in a real sandbox. `file-controls.test.ts` shows that each class could succeed. */
import { runFileAttempts } from './run-file-attempts.ts';

runFileAttempts('sandbox');
