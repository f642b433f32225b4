/** The shared suite on the executor `isolated-vm`. */
import { allCases } from './all-cases.ts';
import { runSuite } from './run-suite.ts';

runSuite('isolated-vm', allCases);
