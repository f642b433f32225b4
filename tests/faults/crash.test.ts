/**
 * The daemon is killed in every step of every operation, and nothing is lost or left over.
 *
 * `./squash test --long` runs 1,000 points; `POINTS=5000 SEED=7 node --test tests/faults/crash.test.ts` any number.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { isOnVms } from '../support/backend.ts';
import { packModule } from '../support/base-layer.ts';
import { crashRun, reachablePoints } from './crash-run.ts';
import { extraModules } from './operations.ts';

/** Where each start is a boot, as many as some minutes have room for. */
const usual = isOnVms ? 30 : process.env['TEST_LONG'] === '1' ? 1_000 : 80;
const points = Number(process.env['POINTS'] ?? usual);
const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000);

test(`a daemon killed at ${points} points loses nothing and leaves nothing (seed ${seed})`, async (context) => {
  const directory = await mkdtemp(join(tmpdir(), 'squash-modules-'));
  try {
    const modules: Record<string, string> = {};
    for (const name of extraModules) {
      modules[name] = join(directory, `${name}.squashfs`);
      await packModule(modules[name], { [`extra/${name}`]: name });
    }
    const report = await crashRun({
      seed,
      points,
      daemon: { modules },
      say: (line) => context.diagnostic(line),
    });
    for (const [where, count] of [...report.deaths].toSorted(([a], [b]) => (a < b ? -1 : 1)))
      context.diagnostic(`${where}: ${count}`);
    context.diagnostic(`not reached: ${report.unreached}`);
    // A long run that never dies somewhere does not test what it says.
    if (points >= 1_000) {
      const seen = [...report.deaths.keys()].join('\n');
      for (const point of reachablePoints()) assert.ok(seen.includes(point), `no death at ${point}`);
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
