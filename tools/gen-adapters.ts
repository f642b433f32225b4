/**
 * Writes `groups/src/nanoclaw.gen.ts` from the adapters in `groups/src/nanoclaw/`: each as one text, which the sandbox's own Node runs.
 * `--check` compares instead of writing and exits 1 where the committed file is stale.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { build } from 'esbuild';

const root = resolve(import.meta.dirname, '..');
const target = join(root, 'groups/src/nanoclaw.gen.ts');
const adapters = { nanoclawV1: 'v1', nanoclawV2: 'v2' } as const;
/** The oldest Node that an image of the original has. */
const nodeTarget = 'node20';
/** Of one argument of a command, with room for what stands before it. */
const textBytesMax = 100_000;

async function textOf(name: string): Promise<string> {
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: [`groups/src/nanoclaw/${name}.ts`],
    bundle: true,
    write: false,
    platform: 'node',
    target: nodeTarget,
    format: 'esm',
    minifyWhitespace: true,
    minifySyntax: true,
    legalComments: 'none',
    logLevel: 'warning',
  });
  const text = outputFiles[0]?.text ?? '';
  if (Buffer.byteLength(text) > textBytesMax) throw new Error(`the adapter ${name} is too long`);
  return text;
}

const lines = await Promise.all(
  Object.entries(adapters).map(
    async ([name, file]) => `export const ${name} = ${JSON.stringify(await textOf(file))};\n`,
  ),
);
const written = `/** Programs that run in sandboxes, as text. Written by tools/gen-adapters.ts from groups/src/nanoclaw: do not change it here. */
${lines.join('')}`;
if (!process.argv.includes('--check')) writeFileSync(target, written);
else if (readFileSync(target, 'utf8') !== written) {
  console.error('groups/src/nanoclaw.gen.ts is stale: run `node tools/gen-adapters.ts`');
  process.exitCode = 1;
}
