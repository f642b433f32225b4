/**
 * Every command of docs/api.md's operations, as it is printed there: it answers with the status that the contract
 * promises first, and with an answer of the promised shape. Only the port and ids that the daemon makes up are others, and
 * the token is added as the page says.
 *
 * Whoever adds an operation says here what it needs: a row of `needs`, which names rows of `world`. Each command begins in
 * a daemon that has nothing but two modules, so rows name all of it and no order matters. What a command may
 * leave behind, or a row of `world` makes, is removed in `emptied`.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import WebSocket from 'ws';
import type { KeyCreated, KeyList } from '@squash/contract/keys';
import type { SshKey, SshKeyList } from '@squash/contract/ssh-keys';
import type { Operation } from '@squash/contract/operations/operation';
import { type OperationId, operations } from '@squash/contract/operations/table';
import { isOnVms } from '../support/backend.ts';
import { baseLayer, packModule, repository } from '../support/base-layer.ts';
import { interpreterModules } from '../support/clients-layer.ts';
import { endOf } from '../support/cli.ts';
import { dockerArchive, tarOf } from '../support/image-archive.ts';
import { expectContract } from '../support/contract.ts';
import { heldOf, makeFamily, removeGroups } from '../support/family.ts';
import { exampleOf } from '../support/operation-request.ts';
import { TestBucket } from '../support/bucket.ts';
import { TestDaemon } from '../support/daemon.ts';
import { DockerRegistry } from '../support/docker-registry.ts';
import { thisTurn } from '../support/turn.ts';
import { waitFor } from '../support/wait.ts';

const token = 'token-of-the-curl-test';
const sandboxes = '/cgi-bin/api/sandboxes';

/** What the page prints, and what stands for it here: the port, and ids that the daemon makes up, which rows of `world` add. */
const standsFor = new Map<string, string>();

/** What there has to be before a command, in the order in which a row of `needs` names it. */
const world = {
  sandbox: () => daemon.call('POST', sandboxes, { id: 'dev', layers: ['000-base-debian'] }),
  interpreter: async () => {
    const layers = ['000-base-debian', '010-debian', '120-interpreter'];
    await daemon.call('POST', sandboxes, { id: 'dev', layers });
  },
  context: () => daemon.call('POST', '/v1/sandboxes/dev/contexts', { context: 'analysis' }),
  cell: async () => {
    const path = '/v1/sandboxes/dev/contexts/default-python/cells';
    const { cell } = (await daemon.call('POST', path, { code: '1' })) as { readonly cell: number };
    standsFor.set('cells/62/', `cells/${cell}/`);
  },
  paused: () => daemon.call('POST', '/v1/sandboxes/dev/pause'),
  rested: () => daemon.call('POST', '/v1/sandboxes/dev/pause', { keep: 'files' }),
  process: () =>
    daemon.call('POST', '/v1/sandboxes/dev/processes', { shell: 'echo ready; cat', stdin: true }),
  ended: () => daemon.call('POST', '/v1/sandboxes/dev/processes', { argv: ['echo', 'one'] }),
  terminal: () =>
    daemon.call('POST', '/v1/sandboxes/dev/processes', { shell: 'cat', pty: { rows: 24, columns: 80 } }),
  input: () => writeFile(join(directory, 'input.txt'), 'one\n'),
  job: () => daemon.call('POST', `${sandboxes}/dev/exec-bg`, { cmd: 'echo one; echo two >&2' }),
  listening: async () => {
    await daemon.call('POST', `${sandboxes}/dev/exec-bg`, { cmd: 'exec httpd -f -p 3000' });
    await daemon.call('GET', '/v1/sandboxes/dev/ports/3000/wait');
  },
  snapshot: async () => {
    await daemon.call('POST', `${sandboxes}/dev/exec`, { cmd: 'echo clean > /root/state' });
    await daemon.call('POST', `${sandboxes}/dev/snapshot`, { label: 'clean' });
  },
  snapshotFile: () => packModule(join(directory, 'clean.squashfs'), { 'root/state': 'clean\n' }),
  moduleFile: () => packModule(join(directory, 'tools.squashfs'), { 'opt/tools/version': '2\n' }),
  image: async () => {
    const answer = await fetch(`${daemon.url}/v1/images?name=python:3.12-slim`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${token}` },
      body: dockerArchive({ layers: [tarOf([{ name: 'etc/' }])] }),
    });
    assert.equal(answer.status, 200, await answer.text());
  },
  /** Root's own daemon has ids of its own, which open nobody's files: this one has root's. */
  written: async () => {
    boxes ??= await TestDaemon.start({
      modules: {},
      env: { SQUASH_AUTH_TOKEN: token, SQUASH_IDS: 'own', SQUASH_HOST_ROOT: '1' },
    });
    const place = join(directory, 'project');
    await mkdir(join(place, 'src'), { recursive: true });
    await writeFile(join(place, 'src/main.ts'), 'one\n');
    const paths = { '/usr': 'ro', '/bin': 'ro', '/lib': 'ro', '/lib64': 'ro', [place]: 'cow' };
    const from = { host: { paths, user: { name: 'root', home: '/root' } } };
    const { id } = (await boxes.call('POST', '/v1/sandboxes', { from })) as { readonly id: string };
    await boxes.call('POST', `/v1/sandboxes/${id}/exec`, { shell: `echo two > ${place}/src/main.ts` });
    standsFor.set('localhost:8080', `localhost:${boxes.port}`);
    standsFor.set('sandboxes/dev/', `sandboxes/${id}/`);
    standsFor.set('%2Fhome%2Falice%2Fproject', encodeURIComponent(place));
    standsFor.set('/home/alice/project', place);
  },
  registry: async () => {
    standsFor.set('registry.example.com', `localhost:${registry.port}`);
  },
  imageFile: () =>
    writeFile(
      join(directory, 'image.tar'),
      dockerArchive({ layers: [tarOf([{ name: 'opt/' }])], name: 'tools:1' }),
    ),
  module: async () => {
    const file = join(directory, 'module.squashfs');
    await packModule(file, { 'opt/tools/version': '1\n' });
    const answer = await fetch(`${daemon.url}/v1/modules/200-tools`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${token}` },
      body: await readFile(file),
    });
    assert.equal(answer.status, 200);
    const { sha256 } = await daemon.call('GET', '/v1/modules/200-tools');
    standsFor.set('0123456789abcdef'.repeat(4), sha256);
  },
  key: async () => {
    const body = { name: 'ci', owner: 'team-a', scope: 'exec' };
    standsFor.set('key_0123456789abcdef', ((await daemon.call('POST', '/v1/keys', body)) as KeyCreated).id);
  },
  hostname: () => daemon.call('POST', `${sandboxes}/dev/exec`, { cmd: 'echo dev > /etc/hostname' }),
  noted: () => daemon.call('POST', `${sandboxes}/dev/exec`, { cmd: 'echo once > /root/notes.txt' }),
  apt: () =>
    daemon.call('POST', `${sandboxes}/dev/exec`, { cmd: 'mkdir -p /etc/apt; : > /etc/apt/apt.conf' }),
  notes: () => writeFile(join(directory, 'notes.txt'), 'once\n'),
  tar: async () => {
    await writeFile(join(directory, 'apt.conf'), '');
    await endOf(spawn('tar', ['-cf', 'apt.tar', 'apt.conf'], { cwd: directory }));
  },
  volume: () => daemon.call('POST', '/v1/volumes', { name: 'data' }),
  mount: async () => {
    const { id } = await daemon.call('POST', '/v1/sandboxes/dev/mounts', { volume: 'data', path: '/data' });
    standsFor.set('mnt_0123456789abcdef', id);
  },
  secret: () =>
    daemon.call('PUT', '/v1/secrets/API_KEY', { value: 'a-real-value', allowed_hosts: ['api.example.com'] }),
  webhook: async () => {
    const { id } = await daemon.call('POST', '/v1/webhooks', { url: 'https://hooks.example.com/squash' });
    standsFor.set('wh_0123456789abcdef0123', String(id));
  },
  question: async () => {
    await daemon.call('PUT', '/v1/sandboxes/dev/policy', { ask: ['api.example.com'] });
    await daemon.call('POST', `${sandboxes}/dev/exec-bg`, { cmd: 'sleep 60 | nc api.example.com 443' });
    const id = await waitFor('the question', async () => (await approvals())[0]?.id);
    standsFor.set('appr_0123456789abcdef0123', id);
  },
  called: async () => {
    await daemon.call('PUT', '/v1/sandboxes/dev/policy', { allow: ['caller.squash.internal:5432'] });
    const headers = { authorization: `Bearer ${token}` };
    const address = `ws://localhost:${daemon.port}/v1/sandboxes/dev/callers/5432`;
    const offer = new WebSocket(address, 'squash.caller.v1', { headers });
    await once(offer, 'message');
    const called = once(offer, 'message');
    await daemon.call('POST', `${sandboxes}/dev/exec-bg`, {
      cmd: 'sleep 60 | nc caller.squash.internal 5432',
    });
    const { connection } = JSON.parse(String((await called)[0])) as { readonly connection: string };
    standsFor.set('0123456789abcdef0123456789abcdef', connection);
  },
  sshKey: async () => {
    const { example } = operations['ssh_key.create'];
    const { id } = (await daemon.call('POST', '/v1/ssh-keys', example.body)) as SshKey;
    standsFor.set('ssh-keys/key_0123456789abcdef', `ssh-keys/${id}`);
  },
  tier: () => daemon.call('PUT', '/v1/tiers/guests', exampleOf(operations['tier.set'].body)),
  group: () => makeFamily(daemon),
  chat: () => daemon.call('POST', '/v1/chats', { name: 'family-chat', group: 'family' }),
  schedule: () => daemon.call('POST', '/v1/schedules', exampleOf(operations['schedule.create'].body)),
  said: async () => {
    standsFor.set('group-actions/1', `group-actions/${await heldOf(daemon)}`);
  },
  standing: async () => {
    const [waiting] = await approvals();
    await daemon.call('POST', `/v1/approvals/${waiting?.id}`, { decision: 'allow', scope: 'always' });
    const [rule] = await standing();
    standsFor.set('standing-approvals/1', `standing-approvals/${rule?.id}`);
  },
} satisfies Readonly<Record<string, () => Promise<unknown>>>;

async function approvals(): Promise<readonly { readonly id: string }[]> {
  const page = await daemon.call('GET', '/v1/approvals?state=pending');
  return (page as { readonly items: readonly { readonly id: string }[] }).items;
}

async function standing(): Promise<readonly { readonly id: number }[]> {
  return (await daemon.call('GET', '/v1/standing-approvals')) as readonly { readonly id: number }[];
}

/** What only a VM that rests can have changed. */
const restedVm = isOnVms ? (['rested'] as const) : [];

const needs: Readonly<Record<OperationId, readonly (keyof typeof world)[]>> = {
  'sandbox.list': ['sandbox'],
  'sandbox.create': [],
  'sandbox.get': ['sandbox'],
  'sandbox.run': [],
  'sandbox.update': ['sandbox', ...restedVm],
  'sandbox.pause': ['sandbox'],
  'sandbox.resume': ['sandbox', 'paused'],
  'sandbox.destroy': ['sandbox'],
  'seed.list': ['sandbox'],
  'seed.create': [],
  'seed.get': ['sandbox'],
  'seed.destroy': ['sandbox'],
  'process.exec': ['sandbox'],
  'process.start': ['sandbox'],
  'process.list': ['sandbox', 'ended'],
  'process.get': ['sandbox', 'ended'],
  'process.output': ['sandbox', 'ended'],
  'process.stdin': ['sandbox', 'process', 'input'],
  'process.attach': ['sandbox', 'ended'],
  'process.resize': ['sandbox', 'terminal'],
  'process.signal': ['sandbox', 'process'],
  'process.wait': ['sandbox', 'process'],
  'context.create': ['interpreter'],
  'context.list': ['interpreter', 'context'],
  'context.get': ['interpreter', 'context'],
  'context.remove': ['interpreter', 'context'],
  'context.run': ['interpreter'],
  'context.output': ['interpreter', 'cell'],
  'context.interrupt': ['interpreter', 'context'],
  'context.restart': ['interpreter', 'context'],
  'ticket.create': [],
  'seed.exec': ['sandbox'],
  'sandbox.exec_stream': ['sandbox'],
  'seed.logs': ['sandbox', 'job'],
  'job.start': ['sandbox'],
  'job.list': ['sandbox', 'job'],
  'job.get': ['sandbox', 'job'],
  'job.logs': ['sandbox', 'job'],
  'job.kill': ['sandbox', 'job'],
  'file.read': ['sandbox', 'hostname'],
  'file.write': ['sandbox', 'notes'],
  'file.change': ['sandbox', 'noted'],
  'file.remove': ['sandbox', 'noted'],
  'file.stat': ['sandbox', 'hostname'],
  'file.list': ['sandbox', 'apt'],
  'file.glob': ['sandbox', 'apt'],
  'file.search': ['sandbox'],
  'file.make_directory': ['sandbox'],
  'file.move': ['sandbox', 'noted'],
  'file.copy': ['sandbox', 'apt'],
  'file.link': ['sandbox'],
  'file.watch': ['sandbox'],
  'file.pack': ['sandbox', 'apt'],
  'file.unpack': ['sandbox', 'tar'],
  'seed.modules': ['module'],
  'seed.gc': ['module'],
  'seed.activate': ['sandbox', 'module'],
  'seed.snapshot': ['sandbox'],
  'seed.restore': ['sandbox', 'snapshot'],
  'snapshot.create': ['sandbox'],
  'snapshot.restore': ['sandbox', 'snapshot'],
  'snapshot.update': ['sandbox', 'snapshot'],
  'port.list': ['sandbox', 'listening'],
  'port.set': ['sandbox'],
  'port.url': ['sandbox'],
  'port.wait': ['sandbox', 'listening'],
  'port.tcp': ['sandbox', 'listening'],
  'caller.offer': ['sandbox'],
  'caller.take': ['sandbox', 'called'],
  'snapshot.list': ['sandbox', 'snapshot'],
  'snapshot.get': ['sandbox', 'snapshot'],
  'snapshot.remove': ['sandbox', 'snapshot'],
  'snapshot.diff': ['sandbox', 'snapshot'],
  'snapshot.download': ['sandbox', 'snapshot'],
  'snapshot.upload': ['sandbox', 'snapshotFile'],
  'change.list': ['written'],
  'change.file': ['written'],
  'change.apply': ['written'],
  'sandbox.paths': ['sandbox'],
  'volume.create': [],
  'volume.list': ['volume'],
  'volume.get': ['volume'],
  'volume.remove': ['volume'],
  'volume.snapshot': ['volume'],
  'mount.attach': ['sandbox', 'volume', ...restedVm],
  'mount.check': [],
  'mount.list': ['sandbox', 'volume', ...restedVm, 'mount'],
  'mount.detach': ['sandbox', 'volume', ...restedVm, 'mount'],
  'image.pull': ['image'],
  'image.list': ['image'],
  'image.get': ['image'],
  'image.import': ['imageFile'],
  'image.commit': ['sandbox'],
  'image.push': ['image', 'registry'],
  'image.export': ['image'],
  'image.flatten': ['image'],
  'image.remove': ['image'],
  'module.list': ['module'],
  'module.get': ['module'],
  'module.activate': ['sandbox', 'module'],
  'module.import': ['moduleFile'],
  'module.describe': ['module'],
  'module.verify': ['module'],
  'module.gc': ['module'],
  'module.download': ['module'],
  'module.remove': ['module'],
  'policy.get': ['sandbox'],
  'policy.set': ['sandbox'],
  'policy.test': ['sandbox'],
  'policy.learn': ['sandbox'],
  'policy.presets': [],
  'egress.decisions': ['sandbox'],
  'sandbox.usage': ['sandbox'],
  'event.list': ['sandbox'],
  'webhook.create': [],
  'webhook.list': ['webhook'],
  'webhook.get': ['webhook'],
  'webhook.update': ['webhook'],
  'webhook.remove': ['webhook'],
  'webhook.test': ['webhook'],
  'tier.list': ['tier'],
  'tier.set': [],
  'tier.remove': ['tier'],
  'group.create': [],
  'group.list': ['group'],
  'group.get': ['group'],
  'group.update': ['group'],
  'group.remove': ['group'],
  'group.runs': ['group', 'chat', 'said'],
  'group.actions': ['group', 'chat', 'said'],
  'group.decide': ['group', 'chat', 'said'],
  'chat.create': ['group'],
  'chat.list': ['group', 'chat'],
  'chat.update': ['group', 'chat'],
  'chat.remove': ['group', 'chat'],
  'chat.reset': ['group', 'chat'],
  'chat.message': ['group', 'chat'],
  'chat.read': ['group', 'chat', 'said'],
  'schedule.create': ['group', 'chat'],
  'schedule.list': ['group', 'chat', 'schedule'],
  'schedule.get': ['group', 'chat', 'schedule'],
  'schedule.update': ['group', 'chat', 'schedule'],
  'schedule.remove': ['group', 'chat', 'schedule'],
  'schedule.runs': ['group', 'chat', 'schedule'],
  'approval.list': ['sandbox', 'question'],
  'approval.get': ['sandbox', 'question'],
  'approval.decide': ['sandbox', 'question'],
  'approval.standing_list': ['sandbox', 'question', 'standing'],
  'approval.standing_remove': ['sandbox', 'question', 'standing'],
  'secret.list': ['secret'],
  'secret.set': [],
  'secret.remove': ['secret'],
  'key.create': [],
  'key.list': ['key'],
  'key.self': [],
  'key.get': ['key'],
  'key.remove': ['key'],
  'ssh_key.create': [],
  'ssh_key.list': ['sshKey'],
  'ssh_key.get': ['sshKey'],
  'ssh_key.remove': ['sshKey'],
  'ssh.offer': ['sshKey'],
  'ssh.login': ['sshKey'],
  'bucket.get': [],
  'bucket.list': [],
  'bucket.push': ['module'],
  'bucket.pull': ['module'],
  'bucket.remove': [],
  'owner.list': ['key'],
  'owner.quota': ['key'],
  'owner.set_quota': [],
  'audit.list': ['sandbox'],
  health: [],
  'daemon.info': [],
  metrics: [],
  openapi: [],
};

/** Whatever an earlier command left. What is not there answers 4xx, which is as well. */
async function emptied(): Promise<void> {
  standsFor.clear();
  standsFor.set('localhost:8080', `localhost:${daemon.port}`);
  const all = (await daemon.call('GET', sandboxes)) as readonly { readonly id: string }[];
  for (const { id } of all) await daemon.call('DELETE', `${sandboxes}/${id}`);
  const keys = (await daemon.call('GET', '/v1/keys')) as KeyList;
  for (const { id } of keys.items) await daemon.call('DELETE', `/v1/keys/${id}`);
  const sshKeys = (await daemon.call('GET', '/v1/ssh-keys')) as SshKeyList;
  for (const { id } of sshKeys.items) await daemon.call('DELETE', `/v1/ssh-keys/${id}`);
  await daemon.call('PUT', '/v1/owners/team-a/quota', {});
  const { items } = (await daemon.call('GET', '/v1/webhooks')) as {
    readonly items: readonly { readonly id: string }[];
  };
  for (const { id } of items) await daemon.call('DELETE', `/v1/webhooks/${id}`);
  await removeGroups(daemon);
  for (const { id } of (await daemon.call('GET', '/v1/volumes')).items)
    await daemon.call('DELETE', `/v1/volumes/${id}`);
  for (const { id } of await standing()) await daemon.request('DELETE', `/v1/standing-approvals/${id}`);
  const object = (name: string) => `/v1/bucket/objects?key=modules%2F${name}`;
  for (const path of [
    '/v1/modules/200-tools',
    '/v1/modules/300-python',
    '/v1/secrets/API_KEY',
    object('200-tools.squashfs'),
    object('200-tools.squashfs.manifest.json'),
  ])
    await daemon.request('DELETE', path);
  await rm(directory, { recursive: true, force: true });
  directory = await mkdtemp(join(tmpdir(), 'squash-curl-'));
}

let daemon: TestDaemon;
let boxes: TestDaemon | undefined;
let bucket: TestBucket;
let registry: DockerRegistry;
let directory: string;
let registryDirectory: string;

before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'squash-curl-'));
  const python = join(directory, 'python.squashfs');
  await packModule(python, { 'opt/python/version': '3.11\n' });
  const { '000-base-debian': debian, ...interpreter } = await interpreterModules();
  bucket = await TestBucket.start();
  registryDirectory = await mkdtemp(join(tmpdir(), 'squash-curl-registry-'));
  registry = await DockerRegistry.start({ directory: registryDirectory });
  daemon = await TestDaemon.start({
    modules: {
      '000-base-debian': await baseLayer(),
      // Kernels are real, and so is what they need below them.
      '010-debian': String(debian),
      ...interpreter,
      '100-python311': python,
    },
    env: {
      ...bucket.environment,
      SQUASH_AUTH_TOKEN: token,
      SQUASH_INSECURE_REGISTRIES: `localhost:${registry.port}`,
    },
  });
});

after(async () => {
  await daemon[Symbol.asyncDispose]();
  await boxes?.[Symbol.asyncDispose]();
  await bucket[Symbol.asyncDispose]();
  await registry[Symbol.asyncDispose]();
  await rm(registryDirectory, { recursive: true, force: true });
  await rm(directory, { recursive: true, force: true });
});

const page = await readFile(join(repository, 'docs/api.md'), 'utf8');

function commandOf(id: string): string {
  const [, section = ''] = page.split(`\n#### ${id}\n`);
  const command = /^```sh\n([\s\S]*?)\n```$/m.exec(section.split('\n#### ')[0] ?? '')?.[1];
  assert.ok(command, `docs/api.md has no command for ${id}: run node tools/openapi.ts`);
  return command;
}

interface Answered {
  readonly target: string;
  readonly status: number;
  readonly contentType: string;
  readonly text: string;
}

/** What follows until its client goes away is left after seconds; curl calls that a time-out. */
async function answerTo(command: string, { webSocket }: Operation): Promise<Answered> {
  const isEndless = command.includes(' -N ');
  let asHere = command;
  for (const [printed, real] of standsFor) asHere = asHere.replaceAll(printed, real);
  const text = `curl() {
  command curl -sS --max-time ${isEndless ? 5 : 60} --dump-header headers -H "Authorization: Bearer $SQUASH_AUTH_TOKEN" "$@"
}
${asHere}`;
  const env = { PATH: process.env['PATH'], SQUASH_AUTH_TOKEN: token };
  const child = spawn('bash', ['-euo', 'pipefail', '-c', text], {
    cwd: directory,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const { code, stdout, stderr } = await endOf(child);
  assert.ok(code === 0 || (isEndless && code === 28), `${command}\n${stdout.toString()}${stderr}`);
  // After the heads of interim answers (100) comes the one that counts.
  const head = (await readFile(join(directory, 'headers'), 'latin1')).trim().split('\r\n\r\n').at(-1) ?? '';
  const saved = /--output (\S+)/.exec(command)?.[1];
  const body = saved === undefined ? stdout : await readFile(join(directory, saved));
  return {
    target: /localhost:8080([^\s']+)/.exec(command)?.[1] ?? '',
    status: Number(/^HTTP\/1\.1 (\d+)/.exec(head)?.[1]),
    contentType: /^content-type: (.*)$/im.exec(head)?.[1] ?? '',
    text: webSocket === undefined ? body.toString() : '',
  };
}

for (const [id, operation] of thisTurn(Object.entries(operations) as [OperationId, Operation][])) {
  test(`curl works ${id} as docs/api.md prints it`, async () => {
    assert.ok(Object.hasOwn(needs, id), `say in the table of this file what ${id} needs`);
    await emptied();
    for (const need of needs[id]) await world[need]();
    const { target, ...answer } = await answerTo(commandOf(id), operation);
    assert.equal(answer.status, operation.answers[0]?.status, answer.text);
    expectContract(operation.method, target, answer);
  });
}
