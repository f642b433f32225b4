/**
 * `squash quickstart`: from built programs to an answer out of a sandbox. Packages, Node, libraries and the
 * native programs are the business of `tools/setup/setup.sh`, which `./squash` runs before this.
 *
 * Every step looks first whether its result is there, so that a second run takes a second and a broken-off one
 * goes on where it was. Words go to standard error, the answer to standard output.
 */
import { spawn } from 'node:child_process';
import { homedir } from 'node:os';
import { delimiter } from 'node:path';
import type { DaemonInfo } from '@squash/contract/daemon';
import type { ExecRecord } from '@squash/contract/exec';
import type { ModuleAnswer } from '@squash/contract/module';
import type { SandboxInfo } from '@squash/contract/sandbox';
import { type Client, modulesPath, sandboxesPath, sandboxPath } from '../client/client.ts';
import type { Call } from '../command.ts';
import { CliFailure, exitCodes } from '../failure.ts';
import { type BuiltLayer, buildLayer } from '../layer-builder.ts';
import { formatBytes, printJson, printLine, printNote, visible } from '../output/print.ts';
import { askOffline } from '../local-host.ts';
import { linkLine } from '../path-link.ts';
import { projectPath } from '../places.ts';
import { secondsSinceStart } from '../process-times.ts';
import { ownDaemon } from './daemon-info.ts';
import { uploadModule } from './module-upload.ts';

/** The README's sandbox and command. */
const sandboxId = 'dev';
const command = 'python3 -c "print(42)"';
const answer = '42\n';

export async function run(call: Call): Promise<number> {
  // Before minutes of building: a data directory that can't be one ends it.
  if ((await ownDaemon(call.client)) === undefined) await step('data', () => askOffline('prepare'));
  const layers = await step('layers', () => buildLayers());
  const { client, info, log } = await step('daemon', () => findDaemon(call.client));
  await step('modules', () => importMissing(client, layers));
  const names = layers.map((layer) => layer.manifest.name);
  const { sandbox, isNew } = await step('sandbox', () => findSandbox(client, names));
  say('command', `${command}   in sandbox "${sandbox.id}"`);
  const record = await client.post<ExecRecord>(sandboxPath(sandbox.id, ['exec']), { cmd: command });
  if (record.exit_code !== 0 || record.stdout !== answer) {
    const said = `the command in sandbox "${sandbox.id}" ended with ${record.exit_code} and said ${JSON.stringify(record.stdout + record.stderr)}`;
    throw new CliFailure(
      'quickstart_failed',
      isNew
        ? `${said}; the daemon's log is ${log ?? 'where the daemon was started'}`
        : `${said}. It is an earlier run's, and may have been changed since, or made on other layers: "squash rm ${sandbox.id}" removes it with its files, the next quickstart makes a new one`,
    );
  }
  const seconds = Number(secondsSinceStart().toFixed(1));
  if (call.json)
    printJson({ answer: record.stdout, sandbox: sandbox.id, layers: names, pid: info.pid, seconds });
  else {
    printLine(record.stdout.trimEnd());
    printNote(nextSteps(names, info, seconds));
  }
  return exitCodes.ok;
}

function say(label: string, text: string): void {
  printNote(`${label.padEnd(9)} ${text}`);
}

/** Adds the step's name to a failure, so that its sentence makes sense at the end of a long output. */
async function step<T>(name: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (failure) {
    if (!(failure instanceof CliFailure)) throw failure;
    throw new CliFailure(
      failure.code,
      `${failure.message}\n(quickstart stopped at "${name}"; run it again when that is mended: it goes on from there)`,
      failure.exitCode,
    );
  }
}

/** The base and Python on it; from the cache where they were built before. */
async function buildLayers(): Promise<readonly BuiltLayer[]> {
  const built: BuiltLayer[] = [];
  for (const preset of ['debian', 'python']) {
    const began = performance.now();
    let steps = 0;
    const elapsed = () => `${Math.round((performance.now() - began) / 1000)} s`;
    const layer = await buildLayer(['build', preset], (name, text) => {
      if (steps === 0) say('layers', `building "${name}" from Debian's packages`);
      steps += 1;
      say('', `${text} (${elapsed()})`);
    }).catch((failure: unknown) => {
      const text = failure instanceof Error ? failure.message : String(failure);
      throw new CliFailure('build_failed', `${text}\nIs Debian's archive in reach? Try: apt-get update`);
    });
    const how = steps === 0 ? 'from the cache' : `built in ${elapsed()}`;
    say('layers', `${layer.manifest.name}  ${formatBytes(layer.bytes)}, ${how}`);
    built.push(layer);
  }
  return built;
}

interface RunningDaemon {
  readonly client: Client;
  readonly info: DaemonInfo;
  readonly log: string | undefined;
}

async function findDaemon(client: Client): Promise<RunningDaemon> {
  const running = await ownDaemon(client);
  if (running !== undefined) {
    say('daemon', `runs already, pid ${running.pid}, data in ${running.data_dir}`);
    return { client, info: running, log: undefined };
  }
  const began = performance.now();
  const { log } = await startDaemon();
  const renewed = client.renewed();
  const info = await ownDaemon(renewed);
  if (info === undefined)
    throw new CliFailure('start_failed', `the daemon was started but does not answer; its log is ${log}`);
  const ms = Math.round(performance.now() - began);
  say('daemon', `started in ${ms} ms, pid ${info.pid}, data in ${info.data_dir}, log ${log}`);
  return { client: renewed, info, log };
}

/** `squash serve --detach` as a process of its own: the daemon must not inherit what this one has open. */
async function startDaemon(): Promise<{ readonly log: string }> {
  const main = projectPath('cli/bin/squash.cjs');
  const child = spawn(process.execPath, [main, 'serve', '--detach', '--json'], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let text = '';
  let refusal = '';
  child.stdout.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  child.stderr.setEncoding('utf8').on('data', (part: string) => {
    refusal += part;
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  if (code !== 0) throw new CliFailure('start_failed', `${reasonOf(refusal)}. Try: squash doctor`);
  return JSON.parse(text) as { readonly log: string };
}

/** The sentence of a refusal that was printed as JSON; whatever else was printed as it is. */
function reasonOf(printed: string): string {
  try {
    const { error } = JSON.parse(printed) as { readonly error: { readonly message: string } };
    return error.message;
  } catch {
    return `the daemon did not start: ${printed.trim()}`;
  }
}

async function importMissing(client: Client, layers: readonly BuiltLayer[]): Promise<void> {
  const present = await client.get<readonly ModuleAnswer[]>(modulesPath);
  for (const layer of layers) {
    const { name } = layer.manifest;
    const module = present.find((each) => each.name === name);
    if (module === undefined) {
      const began = performance.now();
      await uploadModule(client, layer.path, { name, replace: false, manifest: layer.manifest });
      say('modules', `${name}  imported in ${Math.round(performance.now() - began)} ms`);
    } else if (module.size !== layer.bytes) {
      say('modules', `${name}  is there, from another build; it is kept`);
    }
  }
}

/** The sandbox of an earlier run is used again, whatever was done in it. */
async function findSandbox(
  client: Client,
  layers: readonly string[],
): Promise<{ readonly sandbox: SandboxInfo; readonly isNew: boolean }> {
  const all = await client.get<readonly SandboxInfo[]>(sandboxesPath);
  const found = all.find((sandbox) => sandbox.id === sandboxId);
  if (found !== undefined) {
    say('sandbox', `"${sandboxId}" is there already, on ${found.layers.join(', ')}`);
    return { sandbox: found, isNew: false };
  }
  const began = performance.now();
  const made = await client.post<SandboxInfo>(sandboxesPath, { id: sandboxId, layers: layers.join(',') });
  const ms = Math.round(performance.now() - began);
  say('sandbox', `"${sandboxId}" made in ${ms} ms, on ${made.layers.join(', ')}`);
  for (const warning of made.warnings) say('', `warning: ${visible(warning.message)} (${warning.code})`);
  return { sandbox: made, isNew: true };
}

function nextSteps(layers: readonly string[], info: DaemonInfo, seconds: number): string {
  const target =
    info.listen === null ? `--unix-socket ${info.socket} localhost` : `localhost:${info.listen.port}`;
  const token = info.auth ? ` -H "Authorization: Bearer $SQUASH_AUTH_TOKEN"` : '';
  const api = `${target}/cgi-bin/api/sandboxes`;
  const path = (process.env['PATH'] ?? '').split(delimiter);
  const link = linkLine({ path, home: homedir(), starter: projectPath('squash') });
  const linking = link === undefined ? '' : `\nTo call it "squash" from anywhere:\n\n  ${link}\n`;
  return `
That came out of a sandbox, ${seconds} s after the start. Next:

  ./squash shell dev                     a terminal in it
  ./squash exec dev -- ls -l /           one command; its exit code passes through
  ./squash snapshot dev clean            keep its files; ./squash restore dev clean
  ./squash module build                  more layers: git, nodejs, …
  ./squash doctor                        what this machine enforces and what not
  ./squash stop                          the daemon; sandboxes go on without it

The same over HTTP:

  curl${token} -X POST ${api} \\
    -d '{"id":"two","layers":"${layers.join(',')}"}'
  curl${token} -X POST ${api}/two/exec \\
    -d '{"cmd":"python3 -c \\"print(42)\\""}'
${linking}`;
}
