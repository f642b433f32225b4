/** The shared suite and the soak on the executor `sandbox`: engines in sandboxes of a real daemon. */
import { after } from 'node:test';
import { allCases } from '../../codemode/src/suite/all-cases.ts';
import { runSuite } from '../../codemode/src/suite/run-suite.ts';
import { soak } from '../../codemode/src/suite/soak.ts';
import { cliCommand } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';

const daemon = await TestDaemon.start();
// The command line finds the daemon by its data directory.
process.env['SQUASH_DATA'] = daemon.dataDir;
after(() => daemon[Symbol.asyncDispose]());

runSuite('sandbox', allCases, { squash: cliCommand });
soak('sandbox', 20, { squash: cliCommand });
