/**
 * The suite is proven here: every attempt that fails in a sandbox succeeds in a weakened one, at least one in each
 * class. So a broken attack tool or a script that could never work shows, instead of passing for a wall.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { repository } from '../support/base-layer.ts';
import { attackClasses, outcomeOf, type Surroundings } from './attempt.ts';
import { attempts } from './attempts/all.ts';
import { differsInVm } from './attempts/in-vm.ts';
import { HostSide } from './host-side.ts';
import { type AttackTool, attackTool } from './tool.ts';
import { runWeak } from './weak.ts';

const skip = process.getuid?.() !== 0 && 'the weakened sandbox needs root';

let tool: AttackTool;
let host: HostSide;
let around: Surroundings;
const proven = new Set<string>();

before(async () => {
  if (skip !== false) return;
  tool = await attackTool();
  host = await HostSide.start(tool.program);
  around = {
    secretFile: host.secretFile,
    dataDir: await mkdtemp(join(tmpdir(), 'squash-control-')),
    repository,
    victimPid: host.victimPid,
    victimWord: host.victimWord,
    hostSocket: host.socket,
    hostPort: host.port,
    neighbourSocket: host.socket,
    neighbourPort: host.port,
    neighbourWord: host.victimWord,
    apiPort: host.port,
    memoryMb: 64,
    upperMb: 16,
    pidsMax: 300,
  };
});

after(async () => {
  if (skip !== false) return;
  await rm(around.dataDir, { recursive: true, force: true });
  await host[Symbol.asyncDispose]();
});

for (const attempt of attempts) {
  const { control } = attempt;
  if (control.kind === 'none') continue;
  test(`weakened sandbox lets ${attempt.id} succeed`, { skip }, async (context) => {
    const script = (control.run ?? attempt.run)(around);
    const output = await runWeak(tool.program, control.kind, script);
    const outcome = outcomeOf(script, output, host.secrets);
    if (outcome === 'breach') {
      proven.add(attempt.class);
    } else if (control.optional !== undefined && outcome !== 'broken') {
      context.diagnostic(
        `no proof on this machine: ${control.optional}: ${output.stdout.slice(-200).trim()}`,
      );
    } else {
      assert.fail(`${outcome}, exit ${String(output.exitCode)}\n${script}\n${output.stdout}${output.stderr}`);
    }
  });
}

test('every class of attack is proven by a control', { skip }, () => {
  assert.deepEqual(
    attackClasses.filter((attackClass) => !proven.has(attackClass)),
    [],
  );
});

test('attempts are at least a hundred with names of their own', () => {
  const ids = attempts.map((attempt) => attempt.id);
  assert.equal(new Set(ids).size, ids.length);
  assert.ok(ids.length >= 100, `only ${String(ids.length)}`);
  assert.deepEqual(
    [...differsInVm.keys()].filter((id) => !ids.includes(id)),
    [],
  );
});
