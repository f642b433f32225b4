/** The world of one test file: begun before its first test, gone after its last. Where it can't be made there is none. */
import { after, before } from 'node:test';
import { needsRoot, World, type WorldOptions } from './world.ts';

/** @param prepare what all tests of the file begin with. @returns the world, for use within tests */
export function useWorld(options: WorldOptions, prepare?: (world: World) => Promise<void>): () => World {
  const stack = new AsyncDisposableStack();
  let world: World | undefined;
  before(async () => {
    if (needsRoot !== false) return;
    world = stack.use(await World.start(options));
    await prepare?.(world);
  });
  after(() => stack.disposeAsync());
  return () => {
    if (world === undefined) throw new Error('there is a world within tests only');
    return world;
  };
}
