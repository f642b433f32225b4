/** Where this project's files and its own programs lie. */
import { fileURLToPath } from 'node:url';

export const projectDir = fileURLToPath(new URL('../../', import.meta.url));
const architecture = process.arch === 'arm64' ? 'aarch64' : 'x86_64';
const built = `${projectDir}native/build/${architecture}`;
export const launchProgram = `${built}/squash-launch`;
export const initProgram = `${built}/squash-init`;
/** First process of a microVM's guest. */
export const bootProgram = `${built}/squash-boot`;
/** No program: an addition to Node, for `base/src/resting-heap.ts`. */
export const mallocTrimAddon = `${built}/malloc-trim.node`;

/** Runs a program from its built file where there is one. */
export const loaderPath = `${projectDir}base/bin/built.cjs`;

/** What Node is given to run this source of the project: two words. */
export function programWords(source: string): readonly [loader: string, source: string] {
  return [loaderPath, `${projectDir}${source}`];
}
