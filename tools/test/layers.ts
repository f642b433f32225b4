/**
 * What test files take from Debian's archive, layers and the test guest's image, built before the first of these files begins: a build
 * takes minutes, and is in no file's own limit. What users built before is not built again.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './suites.ts';
import { seconds } from './tally.ts';

/** Functions of `tests/support/clients-layer.ts`. A file that calls one needs its layers. */
const makers = ['clientModules', 'databaseModules', 'interpreterModules', 'vmModule'] as const;

/** Whether a test file waits for what is prepared. */
export function needsLayers(file: string): boolean {
  return sourcesOf([file]).some((source) => makersIn(source).length > 0 || guest.test(source));
}

/** Says what it builds, and nothing where all is there. */
export async function prepareLayers(
  files: readonly string[],
  besides: readonly (typeof makers)[number][] = [],
): Promise<void> {
  const sources = sourcesOf(files);
  const named = new Set([...besides, ...sources.flatMap(makersIn)]);
  const wanted = makers.filter((maker) => named.has(maker));
  await Promise.all([
    prepareModules(wanted),
    sources.some((source) => guest.test(source)) ? prepareGuest() : undefined,
  ]);
}

function sourcesOf(files: readonly string[]): readonly string[] {
  return files.map((file) => readFileSync(join(root, file), 'utf8'));
}

function makersIn(source: string): readonly (typeof makers)[number][] {
  return makers.filter((maker) => source.includes(`${maker}(`));
}

/** Whoever boots one calls one of these. */
const guest = /\b(?:bootGuest|bootWithLayer)\(/;

async function prepareGuest(): Promise<void> {
  const began = performance.now();
  const { guestImage } = await import('../../tests/vm/image.ts');
  let isBuilt = false;
  try {
    await guestImage(() => {
      isBuilt = true;
    });
  } catch (error) {
    console.log(`  image of the test guest not built: ${errorLine(error)}`);
  }
  if (isBuilt) console.log(`  image of the test guest built in ${seconds(began)}`);
}

async function prepareModules(wanted: readonly (typeof makers)[number][]): Promise<void> {
  if (wanted.length === 0) return;
  // Not above: it loads the builder, which most runs do without.
  const modules = await import('../../tests/support/clients-layer.ts');
  for (const maker of wanted) {
    const began = performance.now();
    let isBuilt = false;
    const say = (layer: string, text: string) => {
      isBuilt = true;
      console.log(`  layer ${layer}: ${text}`);
    };
    try {
      await modules[maker](say);
    } catch (error) {
      // The files that need it try themselves, and fail with the reason.
      console.log(`  layers not built: ${errorLine(error)}`);
    }
    if (isBuilt) console.log(`  layers built in ${seconds(began)}`);
  }
}

function errorLine(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
