/**
 * `@squash/computesdk`: Squash as a provider of ComputeSDK, whose `compute` calls sandboxes of many makers by one surface.
 *
 * `compute` asks of a provider no more than this shape, so ComputeSDK itself is no dependency: only its types are looked at. What its surface
 * has no words for (policy, secrets, volumes) is said once, in the provider's own options.
 */
import {
  type CreateOptions,
  NotFound,
  outputBytes,
  type Sandbox,
  type SandboxRecord,
  Squash,
  SquashError,
} from '@squash/sdk';
import type {
  CommandResult,
  CreateSandboxOptions,
  ExplicitComputeConfig,
  RunCommandOptions,
  SandboxFileSystem,
  SandboxInterface as ComputeSandbox,
} from 'computesdk';

type Provider = NonNullable<ExplicitComputeConfig['provider']>;

export interface SquashProviderOptions {
  /** Made from the environment unless given. */
  readonly squash?: Squash;
  /** What every sandbox is made with: layers, policy, limits. */
  readonly create?: Omit<CreateOptions, 'signal'>;
}

/** Of ComputeSDK's: what the daemon keeps of a command at most. */
const outputBytesMax = 4_194_304;
const name = 'squash';

export function squash({ squash: client = new Squash(), create = {} }: SquashProviderOptions = {}): Provider {
  const found = async (id: string): Promise<Sandbox | undefined> => {
    try {
      return await client.sandboxes.get(id);
    } catch (error) {
      if (error instanceof NotFound) return undefined;
      throw error;
    }
  };
  return {
    name,
    sandbox: {
      create: async (options = {}) =>
        asCompute(await client.sandboxes.create({ ...create, ...wishOf(options) })),
      getById: async (id) => {
        const box = await found(id);
        return box === undefined ? null : asCompute(box);
      },
      list: async () => {
        const all: ComputeSandbox[] = [];
        for await (const box of client.sandboxes.list()) all.push(asCompute(box));
        return all;
      },
      // One that is gone is as it should be.
      destroy: async (id) => await (await found(id))?.remove(),
    },
    snapshot: {
      create: async (id, options = {}) => {
        const box = await client.sandboxes.get(id);
        const { label, created_at } = await box.snapshots.create({
          ...(options.name !== undefined && { label: options.name }),
          labels: labelsOf(options.metadata),
        });
        return { id: `${id}:${label}`, provider: name, createdAt: created_at };
      },
      list: async () => {
        const all: { id: string; provider: string; createdAt: string; metadata: Record<string, string> }[] =
          [];
        for await (const box of client.sandboxes.list()) {
          for await (const { label, created_at, labels } of box.snapshots.list())
            all.push({
              id: `${box.id}:${label}`,
              provider: name,
              createdAt: created_at,
              metadata: { ...labels },
            });
        }
        return all;
      },
      delete: async (id) => {
        const { sandbox, snapshot } = sourceOf(id);
        await (await client.sandboxes.get(sandbox)).snapshots.remove(snapshot);
      },
    },
  };
}

/** `templateId` is modules, separated by commas; `snapshotId` is what `snapshot.create` gave. What else it may say has no meaning here. */
function wishOf(options: CreateSandboxOptions): CreateOptions {
  const { timeout, templateId, snapshotId, metadata, envs, name: label, signal } = options;
  return {
    ...(timeout !== undefined && { lifetime_s: Math.max(1, Math.ceil(timeout / 1_000)) }),
    ...(templateId !== undefined && { from: { layers: templateId.split(',') } }),
    ...(snapshotId !== undefined && { from: sourceOf(snapshotId) }),
    ...(metadata !== undefined && { labels: labelsOf(metadata) }),
    ...(envs !== undefined && { env: envs }),
    ...(label !== undefined && { name: label }),
    ...(signal !== undefined && { signal }),
  };
}

function sourceOf(snapshotId: string): { readonly sandbox: string; readonly snapshot: string } {
  const [sandbox = '', snapshot = ''] = snapshotId.split(':', 2);
  return { sandbox, snapshot };
}

function labelsOf(metadata: Readonly<Record<string, unknown>> = {}): Record<string, string> {
  const text = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));
  return Object.fromEntries(Object.entries(metadata).map(([key, value]) => [key, text(value)]));
}

function asCompute(box: Sandbox): ComputeSandbox {
  return {
    sandboxId: box.id,
    provider: name,
    runCommand: async (command, options = {}) => await run(box, command, options),
    getInfo: async () => {
      const info = await box.refresh();
      const createdAt = new Date(info.created_at);
      const timeout = (info.lifetime_s ?? 0) * 1_000;
      return {
        id: box.id,
        provider: name,
        status: statusOf(info),
        createdAt,
        timeout,
        metadata: { ...info.labels },
      };
    },
    // A link that shows this port alone, until it ends.
    getUrl: async ({ port }) => {
      const { url } = await box.ports.url(port);
      if (url === null) throw noAddress();
      return url;
    },
    destroy: async () => await box.remove(),
    filesystem: filesOf(box),
  };
}

function noAddress(): SquashError {
  return new SquashError({
    code: 'no_address',
    message: 'the daemon listens on its Unix socket alone, so ports have no address',
    remedy: 'Give the daemon a port (SQUASH_PORT)',
  });
}

function statusOf({ state }: SandboxRecord): 'running' | 'stopped' | 'error' {
  if (state === 'failed') return 'error';
  return state === 'paused' || state === 'stopped' || state === 'destroying' ? 'stopped' : 'running';
}

/** A command that fails is a result. Output is told as it comes, where somebody listens. */
async function run(box: Sandbox, command: string, options: RunCommandOptions): Promise<CommandResult> {
  const { cwd, env, timeout, background = false, onStdout, onStderr } = options;
  const wish = {
    ...(cwd !== undefined && { cwd }),
    ...(env !== undefined && { env }),
    ...(timeout !== undefined && { timeout_ms: timeout }),
    output_bytes_max: outputBytesMax,
  };
  if (!background && onStdout === undefined && onStderr === undefined)
    return resultOf(await box.exec(command, wish));
  const process = await box.start(command, wish);
  if (background) return { stdout: '', stderr: '', exitCode: 0, durationMs: 0 };
  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  const texts = { stdout: '', stderr: '' };
  for await (const event of process.output()) {
    if (event.type !== 'output') continue;
    const stream = event.stream === 'stderr' ? 'stderr' : 'stdout';
    const text = decoders[stream].decode(outputBytes(event), { stream: true });
    texts[stream] = (texts[stream] + text).slice(-outputBytesMax);
    (stream === 'stderr' ? onStderr : onStdout)?.(text);
  }
  return resultOf({ ...process.info, ...texts });
}

interface Ended {
  readonly stdout: string;
  readonly stderr: string;
  readonly exit_code: number | null;
  readonly duration_ms: number | null;
}

function resultOf({ stdout, stderr, exit_code: exitCode, duration_ms: durationMs }: Ended): CommandResult {
  return { stdout, stderr, exitCode: exitCode ?? -1, durationMs: durationMs ?? 0 };
}

function filesOf({ files }: Sandbox): SandboxFileSystem {
  return {
    readFile: async (path) => await files.readText(path),
    writeFile: async (path, content) => void (await files.write(path, content, { parents: true })),
    mkdir: async (path) => void (await files.makeDirectory(path, { parents: true })),
    exists: async (path) => await files.exists(path),
    remove: async (path) => await files.remove(path, { recursive: true }),
    readdir: async (path) => {
      const entries: Awaited<ReturnType<SandboxFileSystem['readdir']>> = [];
      for await (const { path: entry, type, size, modified_at } of files.list(path))
        entries.push({
          name: entry,
          type: type === 'directory' ? 'directory' : 'file',
          size,
          modified: new Date(modified_at),
        });
      return entries;
    },
  };
}
