/** The shared suite on the executor `container`, with each of its engines. */
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { allCases } from './all-cases.ts';
import { runSuite } from './run-suite.ts';

const isThere = ['/usr/bin/podman', '/usr/bin/docker', '/usr/local/bin/docker'].some((path) =>
  existsSync(path),
);

if (isThere) {
  runSuite('container', allCases, { engine: 'quickjs' });
  runSuite(
    'container',
    { seed: allCases['seed'] ?? [], limits: allCases['limits'] ?? [] },
    { engine: 'isolated-vm' },
  );
} else {
  test('the shared suite on the executor container', {
    skip: 'neither podman nor docker is installed',
  }, () => {});
}
