/** The shared suite on the executor `deno`. */
import { allCases } from './all-cases.ts';
import { runSuite } from './run-suite.ts';

runSuite('deno', allCases);
