/** Many runs on each executor but `sandbox`, which needs a daemon: tests/e2e/codemode-sandbox.test.ts has its soak. */
import { test } from 'node:test';
import { noContainers } from './containers.ts';
import { soak } from './soak.ts';

soak('quickjs', 300);
soak('isolated-vm', 300);
soak('deno', 40);
soak('vm2', 20);

const why = noContainers();
if (why === false) soak('container', 20);
else test('soak on container', { skip: why }, () => {});
