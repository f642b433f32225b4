/**
 * Images on their way out: pushed to a real registry and pulled from there by tools that are not ours, exported to files that those
 * read, and merged to one module.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Image, ImagePush } from '@squash/contract/image';
import { squash, squashOk } from '../support/cli.ts';
import { TestDaemon } from '../support/daemon.ts';
import { dockerArchive, tarOf } from '../support/image-archive.ts';
import { TestRegistry } from '../support/registry.ts';
import { TokenRegistry } from '../support/token-registry.ts';

const isRoot = process.getuid?.() === 0;
let directory: string;
let registry: TestRegistry;
let tokens: TokenRegistry;
let daemon: TestDaemon;

before(async () => {
  directory = mkdtempSync(join(tmpdir(), 'squash-push-'));
  registry = await TestRegistry.start();
  tokens = await TokenRegistry.start(registry);
  const insecure = [registry.host, tokens.host, tokens.tokenHost];
  daemon = await TestDaemon.start({
    files: { 'registry-auth.json': JSON.stringify({ auths: { ...registry.auth, ...tokens.auth } }) },
    env: { SQUASH_INSECURE_REGISTRIES: insecure.join(','), SQUASH_AUTH_TOKEN: 'token-of-images' },
  });
  await restarted(join(daemon.dataDir, 'registry-auth.json'));
});
after(async () => {
  await daemon[Symbol.asyncDispose]();
  await tokens[Symbol.asyncDispose]();
  await registry[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true });
});

async function restarted(authFile: string): Promise<void> {
  await daemon.stop();
  await daemon.start({ SQUASH_REGISTRY_AUTH_FILE: authFile });
}

const cli = (...words: string[]): Promise<string> => squashOk(daemon, words);
