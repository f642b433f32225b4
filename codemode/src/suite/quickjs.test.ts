/** The shared suite on the executor `quickjs`. */
import { allCases } from './all-cases.ts';
import { runSuite } from './run-suite.ts';

runSuite('quickjs', allCases);
