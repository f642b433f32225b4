/** What is asked of one sandbox at once: one after the other in some order, and never half of one and half of another. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { ApiClient } from '../support/api-client.ts';
import { packModule } from '../support/base-layer.ts';
import { TestDaemon } from '../support/daemon.ts';

const box = '/cgi-bin/api/sandboxes/order';
const rounds = 4;

test('snapshots, restore, activate and commands asked for at once leave a state that one order would', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'squash-order-'));
  const tool = join(directory, 'tool.squashfs');
  await packModule(tool, { 'opt/tool/answer': '42\n' });
  {
    await using daemon = await TestDaemon.start({ modules: { '100-tool': tool } });
    const api = new ApiClient(daemon);
    const post = (path: string, body: object) => api.post(`${box}${path}`, body);
    /** What is said of the layers is what is there. */
    const check = async (): Promise<void> => {
      const { json: info } = await api.get(box);
      const { json: seen } = await post('/exec', { cmd: 'cat /state; ls /opt/tool 2>/dev/null' });
      const hasTool = info.layers.includes('100-tool');
      assert.equal(seen.stdout, hasTool ? 'start\nanswer\n' : 'start\n', JSON.stringify(info.layers));
    };
    assert.equal((await api.post('/cgi-bin/api/sandboxes', { id: 'order', memory_mb: 64 })).status, 201);
    await post('/exec', { cmd: 'echo start > /state' });
    await post('/snapshot', { label: 'start' });
    for (let round = 0; round < rounds; round += 1) {
      const labels = [`one-${round}`, `two-${round}`];
      const answers = await Promise.all(
        [
          post('/snapshot', { label: labels[0] }),
          post('/activate', { module: '100-tool' }),
          post('/restore', { label: 'start' }),
          post('/snapshot', { label: labels[1] }),
        ].concat(Array.from({ length: 3 }, () => post('/exec', { cmd: 'sleep 0.1; echo done' }))),
      );
      for (const [at, { status, json, text }] of answers.entries()) {
        assert.equal(status, 200, text);
        if (at < 4) continue;
        if (json.exit_code === 0) assert.equal(json.stdout, 'done\n');
        else assert.deepEqual([json.exit_code, json.reason], [137, 'layers_changed']);
      }
      await check();
      for (const label of [...labels, 'start']) {
        const { json } = await post('/restore', { label });
        assert.equal(json.active_snapshot, label);
        await check();
      }
    }
  }
  await rm(directory, { recursive: true });
});
