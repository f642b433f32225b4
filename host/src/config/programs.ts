/** Where this project's files and its own programs lie. */
import { fileURLToPath } from 'node:url';

export const projectDir = fileURLToPath(new URL('../../../', import.meta.url));
const architecture = process.arch === 'arm64' ? 'aarch64' : 'x86_64';
const built = `${projectDir}native/build/${architecture}`;
export const launchProgram = `${built}/squash-launch`;
/** No program: an addition to Node, for `base/src/resting-heap.ts`. */
export const mallocTrimAddon = `${built}/malloc-trim.node`;
