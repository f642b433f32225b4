/**
 * Runs the layer builder (`images/main.ts`) of this project, for `quickstart` and `module build`.
 *
 * The CLI knows its path and its answers: one JSON object per line. Building works on this machine and needs no
 * daemon; the finished file then goes to the daemon through the API like any other module.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { CliFailure, usageFailure } from './failure.ts';
import { drawProgress } from './output/progress.ts';
import { projectPath } from './places.ts';

const builder = projectPath('images/main.ts');

export interface BuiltLayer {
  readonly path: string;
  readonly bytes: number;
  readonly manifest: {
    readonly name: string;
    readonly base: string | null;
    readonly squashfs_sha256: string;
  };
}

type Answer =
  | ({ readonly type: 'layer' } & BuiltLayer)
  | {
      readonly type: 'progress';
      readonly layer: string;
      readonly text: string;
      /** Of a download. */
      readonly bytes_done?: number;
      readonly bytes_total?: number | null;
    }
  | ({ readonly type: 'preset' } & LayerPreset)
  | { readonly type: 'error'; readonly message: string; readonly usage: boolean };

export interface LayerPreset {
  readonly name: string;
  readonly aliases: readonly string[];
  readonly module: string;
  readonly source: string;
  readonly squashfs_mb: number;
  readonly unpacked_mb: number;
  readonly licence: string;
  readonly summary: string;
  readonly path: string;
}

/** @throws CliFailure with the end of the build's log */
export async function buildLayer(
  words: readonly string[],
  onProgress: (layer: string, text: string) => void,
): Promise<BuiltLayer> {
  let layer: BuiltLayer | undefined;
  await runBuilder(words, (answer) => {
    if (answer.type === 'progress') {
      if (answer.bytes_done === undefined) onProgress(answer.layer, answer.text);
      else drawProgress({ label: answer.text, bytes: answer.bytes_total ?? undefined }, answer.bytes_done);
    }
    if (answer.type === 'layer') layer = answer;
  });
  if (layer === undefined) throw new CliFailure('build_failed', 'the layer builder ended without a layer');
  return layer;
}

export async function listLayerPresets(): Promise<readonly LayerPreset[]> {
  const presets: LayerPreset[] = [];
  await runBuilder(['presets'], (answer) => {
    if (answer.type !== 'preset') return;
    const { type: _type, ...preset } = answer;
    presets.push(preset);
  });
  return presets;
}

async function runBuilder(words: readonly string[], take: (answer: Answer) => void): Promise<void> {
  if (!existsSync(builder)) {
    throw new CliFailure('unsupported', 'layers are built from a clone of the project; this is no clone');
  }
  const child = spawn(process.execPath, [builder, ...words], {
    stdio: ['ignore', 'pipe', 'inherit'],
    // Downloads go by the machine's proxy, as apt's and npm's do.
    env: { ...process.env, NODE_USE_ENV_PROXY: '1' },
  });
  const ended = new Promise<string | undefined>((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('close', (code, signal) => resolve(code === 0 ? undefined : (signal ?? `code ${code}`)));
  });
  // The build removes what it has begun; we wait for it instead of leaving it alone with the signal.
  const onSignal = () => child.kill('SIGTERM');
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, onSignal);
  let complaint: Extract<Answer, { readonly type: 'error' }> | undefined;
  try {
    for await (const line of createInterface({ input: child.stdout })) {
      const answer = JSON.parse(line) as Answer;
      if (answer.type === 'error') complaint = answer;
      else take(answer);
    }
    const failure = await ended;
    if (failure !== undefined && complaint?.usage === true) throw usageFailure(complaint.message);
    if (failure !== undefined)
      throw new CliFailure('build_failed', complaint?.message ?? `the build ended with ${failure}`);
  } finally {
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.off(name, onSignal);
  }
}
