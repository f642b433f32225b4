/**
 * Sandboxes that are microVMs, through the API: QEMU from the VM module boots the real kernel on the same layers, under the same
 * launcher, behind the same egress. Emulated where KVM is missing, so each boot takes seconds.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { TestDaemon } from '../support/daemon.ts';
import { processes } from '../support/leaks.ts';
import { vmModule } from '../support/clients-layer.ts';
import { waitFor } from '../support/wait.ts';

let daemon: TestDaemon;

before(async () => {
  daemon = await TestDaemon.start({ modules: { '900-vmm': await vmModule() } });
});
after(async () => {
  await daemon[Symbol.asyncDispose]();
});

interface Ran {
  readonly exit_code: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function create(id: string, more: Record<string, unknown> = {}): Promise<void> {
  const made = await daemon.request('POST', '/cgi-bin/api/sandboxes', { id, backend: 'vm', memory_mb: 256, ...more });
  assert.equal(made.status, 201, made.text);
  assert.equal(made.json.backend, 'vm');
  assert.equal(made.json.state, 'ready');
}

async function run(id: string, cmd: string): Promise<Ran> {
  const answer = await daemon.request('POST', `/cgi-bin/api/sandboxes/${id}/exec`, { cmd });
  assert.equal(answer.status, 200, answer.text);
  return answer.json as Ran;
}

async function output(id: string, cmd: string): Promise<string> {
  const { exit_code: code, stdout, stderr } = await run(id, cmd);
  assert.equal(code, 0, stderr);
  return stdout.trim();
}

test('a microVM runs commands on its own kernel', async () => {
  await create('own');
  const began = performance.now();
  console.log(await output('own', 'uname -r; id -u; hostname; cat /etc/resolv.conf; df -h /; free -m; mount; ps'));
  console.log(performance.now() - began);
});
