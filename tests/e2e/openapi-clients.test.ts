/**
 * What others make of `/openapi.json`: a linter finds nothing in it, two generators make clients of TypeScript from it that
 * compile under `strict`, and Debian's OpenAPI::Client one of Perl: each works a real daemon.
 *
 * The generators stand in tests/clients, a workspace of its own: they call the compiler of TypeScript 5 as a library,
 * which the one that checks this project no longer is.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { packModule, repository } from '../support/base-layer.ts';
import { TestDaemon } from '../support/daemon.ts';
import { patience } from '../support/wait.ts';

const runFile = promisify(execFile);
const programs = join(repository, 'node_modules/.bin');
const generators = join(repository, 'tests/clients/node_modules/.bin');

let daemon: TestDaemon;
let folder: string;
before(async () => {
  daemon = await TestDaemon.start();
  folder = await mkdtemp(join(tmpdir(), 'squash-clients-'));
  await symlink(join(repository, 'node_modules'), join(folder, 'node_modules'));
  await writeFile(join(folder, 'package.json'), '{"type":"module"}\n');
  const response = await fetch(`${daemon.url}/openapi.json`);
  await writeFile(join(folder, 'openapi.json'), await response.text());
});
after(async () => {
  await daemon[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

/** Runs a program in the folder; its two outputs together. @throws with both when it fails */
async function run(program: string, ...words: readonly string[]): Promise<string> {
  const env = {
    PATH: `${join(process.execPath, '..')}:/usr/bin:/bin`,
    HOME: folder,
    NO_COLOR: '1',
    REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true',
    JSON_VALIDATOR_CACHE_PATH: 'schemas',
  };
  try {
    const { stdout, stderr } = await runFile(program, words, {
      cwd: folder,
      env,
      timeout: 60_000 * patience,
    });
    return stdout + stderr;
  } catch (error) {
    const { stdout, stderr } = error as { readonly stdout: string; readonly stderr: string };
    throw new Error(`${program} ${words.join(' ')}\n${stdout}${stderr}`, { cause: error });
  }
}

/** Compiles a program with the generated client it imports, under `strict`, and runs it; what it printed. */
async function compileAndRun(name: string, source: string): Promise<string> {
  await writeFile(join(folder, `${name}.ts`), source);
  const strictness = ['--strict', '--noUncheckedIndexedAccess'];
  const form = ['--module', 'nodenext', '--target', 'esnext', '--lib', 'esnext,dom', '--types', 'node'];
  await run(join(programs, 'tsc'), ...strictness, ...form, '--outDir', name, `${name}.ts`);
  return await run(process.execPath, join(name, `${name}.js`), daemon.url);
}

test('the description that the daemon serves has no fault that Redocly finds', async () => {
  const config = join(repository, 'redocly.yaml');
  const found = await run(join(programs, 'redocly'), 'lint', 'openapi.json', `--config=${config}`);
  assert.match(found, /Your API description is valid/);
  assert.doesNotMatch(found, /warning/);
});

test('a client that openapi-typescript generates creates a sandbox, runs a command and destroys it', async () => {
  await run(join(generators, 'openapi-typescript'), 'openapi.json', '--output', 'squash.ts');
  const printed = await compileAndRun(
    'by-path',
    `import createClient from 'openapi-fetch';
import type { components, paths } from './squash.js';

const squash = createClient<paths>({ baseUrl: process.argv[2] ?? '' });
const params = { path: { id: 'typed' } };
const created = await squash.POST('/cgi-bin/api/sandboxes', { body: { id: 'typed', cpu: 1 } });
const info: components['schemas']['SandboxInfo'] | undefined = created.data;
console.log(info?.state);
const ran = await squash.POST('/cgi-bin/api/sandboxes/{id}/exec', { params, body: { cmd: 'exit 3' } });
console.log(ran.data?.exit_code, ran.data?.reason);
const refused = await squash.POST('/cgi-bin/api/sandboxes', { body: { id: 'typed' } });
console.log(refused.error?.code);
console.log((await squash.DELETE('/cgi-bin/api/sandboxes/{id}', { params })).response.status);
`,
  );
  assert.equal(printed, 'ready\n3 exited\nsandbox_exists\n204\n');
});

test('a client that hey-api generates has a function per operation, and follows a job', async () => {
  await run(join(generators, 'openapi-ts'), '-i', 'openapi.json', '-o', 'squash', '--no-log-file');
  const printed = await compileAndRun(
    'by-name',
    `import { client } from './squash/client.gen.js';
import { jobLogs, jobStart, sandboxCreate, sandboxDestroy, seedExec, type ExecRecord } from './squash/index.js';

client.setConfig({ baseUrl: process.argv[2] ?? '', throwOnError: true });
const created = await sandboxCreate({ body: { from: { layers: ['000-base-test'] } }, throwOnError: true });
const path = { id: created.data.id };
console.log(created.data.layers.join());
const ran = await seedExec({ path, body: { cmd: 'echo out; echo err >&2' }, throwOnError: true });
const record: ExecRecord = ran.data;
console.log(record.stdout + record.stderr + record.seq);
const job = await jobStart({ path, body: { cmd: 'echo one; echo two' }, throwOnError: true });
const { stream } = await jobLogs({ path: { ...path, jobId: String(job.data.job_id) }, sseMaxRetryAttempts: 1 });
for await (const line of stream) console.log(line);
await sandboxDestroy({ path, throwOnError: true });
const again = await sandboxDestroy({ path, throwOnError: false });
console.log(again.error?.code);
`,
  );
  assert.equal(printed, '000-base-test\nout\nerr\n1\none\ntwo\n{ exit_code: 0 }\nsandbox_not_found\n');
});

/**
 * The client wants to check the description by OpenAPI's own schema first, which Debian does not have and a test does not
 * fetch: one that takes anything stands for it. Redocly has checked the description.
 */
async function acceptAnyDescription(): Promise<void> {
  const $id = 'https://spec.openapis.org/oas/3.1/schema/2021-05-20';
  const schema = { $schema: 'https://json-schema.org/draft/2020-12/schema', $id, type: 'object' };
  await mkdir(join(folder, 'schemas'));
  const file = createHash('md5').update($id).digest('hex');
  await writeFile(join(folder, 'schemas', file), JSON.stringify(schema));
}

test('the client that Perl makes runs commands, moves a snapshot as bytes, and refuses what the description does', async () => {
  await acceptAnyDescription();
  await packModule(join(folder, 'clean.squashfs'), { 'root/state': 'clean\n' });
  await writeFile(
    join(folder, 'client.pl'),
    `use strict; use warnings; use Mojo::File 'path'; use OpenAPI::Client;
my $squash = OpenAPI::Client->new('file://' . path('openapi.json')->to_abs, base_url => Mojo::URL->new($ARGV[0]));
sub call { $squash->call(@_)->res }
my $made = call('sandbox.create', {body => {name => 'perl', cpu => 1}})->json;
my $id = $made->{id};
print "$made->{state}\n";
my $ran = call('seed.exec', {id => $id, body => {cmd => 'echo out; exit 3'}})->json;
print "$ran->{exit_code} $ran->{stdout}";
print join(',', map { $_->{name} } @{call('sandbox.list')->json->{items}}), "\n";
print call('seed.logs', {id => $id, limit => 1})->json->[0]{seq}, "\n";
my $gone = call('sandbox.get', {id => 'gone'});
print $gone->code, ' ', $gone->json->{code}, "\n";
my $query = call('seed.logs', {id => $id, limit => 'many'});
print $query->code, ' ', $query->json->{errors}[0]{path}, "\n";
my %snapshot = (id => $id, label => 'clean');
my $bytes = path('clean.squashfs')->slurp;
my $quoted = call('snapshot.upload', {%snapshot, body => $bytes});
print $quoted->code, ' ', $quoted->json->{code}, "\n";
print call('snapshot.upload', {%snapshot}, body => $bytes)->json->{label}, "\n";
print call('snapshot.download', {%snapshot})->body eq $bytes ? "same\n" : "other\n";
print call('sandbox.destroy', {id => $id})->code, "\n";
`,
  );
  assert.equal(
    await run('perl', 'client.pl', daemon.url),
    'ready\n3 out\nperl\n1\n404 sandbox_not_found\n400 /limit\n415 unsupported_media_type\nclean\nsame\n204\n',
  );
});
