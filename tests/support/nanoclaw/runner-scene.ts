/** A daemon with a layer in which a runner of this folder is, and groups of its profile. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { GroupProfile } from '@squash/contract/group-profiles';
import { packModule } from '../base-layer.ts';
import { glibcProgram } from '../glibc-program.ts';
import { GroupScene } from '../group-scene.ts';

export class RunnerScene implements AsyncDisposable {
  readonly scene: GroupScene;
  readonly #profile: GroupProfile;
  readonly #folder: string;

  private constructor(scene: GroupScene, profile: GroupProfile, folder: string) {
    this.scene = scene;
    this.#profile = profile;
    this.#folder = folder;
  }

  /** Its Node is the one that runs the tests. */
  static async start(profile: GroupProfile, runner: string): Promise<RunnerScene> {
    const folder = await mkdtemp(join(tmpdir(), 'squash-runner-'));
    const layer = join(folder, 'layer.squashfs');
    const { [process.execPath.slice(1)]: node = assert.fail(), ...libraries } = glibcProgram(
      process.execPath,
    );
    const text = await readFile(join(import.meta.dirname, runner));
    await packModule(layer, { 'usr/bin/node': node, ...libraries, 'app/dist/index.mjs': text });
    const scene = await GroupScene.start({ modules: { '100-runner-test': layer } });
    return new RunnerScene(scene, profile, folder);
  }

  async group(name: string, tier: string, env: Readonly<Record<string, string>> = {}): Promise<void> {
    await this.scene.group(name, tier, {
      script: '',
      profile: this.#profile,
      command: ['node', '--no-warnings', '/app/dist/index.mjs'],
      layers: ['000-base-test', '100-runner-test'],
      env: { NANOCLAW_QUIET_S: '0.7', ...env },
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.scene[Symbol.asyncDispose]();
    await rm(this.#folder, { recursive: true });
  }
}

/** What the agent does in the sandbox, as a message says it. */
export function does<Given>(body: (given: Given) => unknown): string {
  return `do:${Buffer.from(String(body)).toString('base64')}`;
}
