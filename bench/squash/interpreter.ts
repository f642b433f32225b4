/** A sandbox with the layer of contexts, as users build it, and in it the programs that its cells are compared with. */
import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Sandbox, Squash } from '@squash/sdk';
import { hostSuite } from '../../images/bootstrap.ts';
import { type CachedLayer, cacheKey, findCached } from '../../images/cache.ts';
import { findPreset } from '../../images/preset-files.ts';

const memoryMb = 1024;

/** The sandbox has no end of its own: whoever made it removes it. @throws where the layer is not built */
export async function makeInterpreter(squash: Squash): Promise<Sandbox> {
  const layers: string[] = [];
  for (const { about, squashfs } of builtLayers()) {
    await squash.modules.import(about.name, createReadStream(squashfs));
    layers.push(about.name);
  }
  return await squash.sandboxes.create({ from: { layers }, memory_mb: memoryMb });
}

/** Never built here: it takes longer than everything that is measured. */
function builtLayers(): readonly CachedLayer[] {
  const built: CachedLayer[] = [];
  for (const wanted of ['debian', 'interpreter']) {
    const layer = findCached(cacheKey(findPreset(wanted), { suite: hostSuite(), base: built[0] }));
    if (layer === undefined)
      throw new Error(`the layer "${wanted}" is not built: ./squash module build interpreter`);
    built.push(layer);
  }
  return built;
}

export type BareWay = 'ipython' | 'jupyter_client';

/** Cells by programs inside, which measure them themselves. */
export class BareCells {
  readonly #answers: AsyncIterator<string>;
  readonly #ask: (way: BareWay) => Promise<void>;

  private constructor(answers: AsyncIterator<string>, ask: (way: BareWay) => Promise<void>) {
    this.#answers = answers;
    this.#ask = ask;
  }

  static async start(box: Sandbox, code: string): Promise<BareCells> {
    await box.files.write('/root/cells.py', await readFile(join(import.meta.dirname, 'cells.py')));
    const process = await box.start(['python3', '/root/cells.py', code], { stdin: true });
    return new BareCells(linesOf(process), async (way) => await process.write(`${way}\n`));
  }

  /** Milliseconds of a hundred. @throws when one fails */
  async hundred(way: BareWay): Promise<readonly number[]> {
    await this.#ask(way);
    const { value, done } = await this.#answers.next();
    if (done === true) throw new Error(`the program in the sandbox ended at ${way}`);
    return JSON.parse(value) as number[];
  }
}

async function* linesOf(process: Awaited<ReturnType<Sandbox['start']>>): AsyncGenerator<string, void, void> {
  let text = '';
  let said = '';
  for await (const event of process.output()) {
    if (event.type !== 'output') continue;
    if (event.stream === 'stderr') said = (said + (event.text ?? '')).slice(-2_000);
    else text += event.text ?? '';
    const lines = text.split('\n');
    text = lines.pop() ?? '';
    yield* lines;
  }
  throw new Error(`the program in the sandbox ended: ${said}`);
}
