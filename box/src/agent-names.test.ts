/** Agents' settings in a home are those that it has now, whatever was listed before. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, test } from 'node:test';
import { agentNames } from './agent-names.ts';

const home = mkdtempSync(join(tmpdir(), 'squash-home-'));
after(() => rmSync(home, { recursive: true }));

test('they are known by their names', () => {
  writeFileSync(join(home, '.claude.json'), '');
  writeFileSync(join(home, '.claudette'), '');
  mkdirSync(join(home, '.claude-work'));
  assert.deepEqual([...agentNames(home)].sort(), ['.claude-work', '.claude.json']);
});

test('one that comes or goes is seen at once, also where the home was listed in that moment', async () => {
  await sleep(2_600);
  const path = join(home, '.claude.new');
  for (let round = 0; round < 500; round += 1) {
    agentNames(home);
    writeFileSync(path, '');
    assert.ok(agentNames(home).includes('.claude.new'), `round ${round}`);
    rmSync(path);
    assert.ok(!agentNames(home).includes('.claude.new'), `round ${round}`);
  }
});

test('a home that is not there, and one of nobody’s, has none', () => {
  assert.deepEqual(agentNames(join(home, 'nowhere')), []);
  assert.deepEqual(agentNames(join(home, '.claude.json')), []);
});
