/** Every attempt inside a real sandbox. `controls.test.ts` shows that each could succeed. */
import { runAttempts } from './run-attempts.ts';

runAttempts('sandbox');
