/** The shared suite on the executor `vm2`. */
import { allCases } from './all-cases.ts';
import { runSuite } from './run-suite.ts';

runSuite('vm2', allCases);
