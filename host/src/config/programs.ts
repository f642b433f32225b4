/** Where this project's files and its own programs lie. */
import { fileURLToPath } from 'node:url';

export const projectDir = fileURLToPath(new URL('../../../', import.meta.url));
const architecture = process.arch === 'arm64' ? 'aarch64' : 'x86_64';
export const launchProgram = `${projectDir}native/build/${architecture}/squash-launch`;
