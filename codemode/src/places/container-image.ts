/** The image of the place `container`: the worker's tree, imported into podman or docker under the name of its content. */
import { execFile, spawn } from 'node:child_process';
import { promisify } from 'node:util';
import { CodemodeError } from '../errors.ts';
import type { EngineName } from '../protocol/frames.ts';
import { digestOf, treeContents, withTree } from './worker-tree.ts';

const run = promisify(execFile);

/**
 * The image, built where the engine does not have it. By its digest: a name can be given to another image between two starts.
 * @throws CodemodeError `unavailable`
 */
export async function ensureImage(program: string, engine: EngineName): Promise<string> {
  const entries = await treeContents(engine);
  const name = `localhost/squash-codemode:${digestOf(entries)}`;
  const look = async () => {
    const { stdout } = await run(program, ['image', 'inspect', '--format', '{{.Id}}', name]);
    return stdout.trim();
  };
  try {
    return await look();
  } catch {
    await withTree(entries, (root) => importTree(program, name, root));
    return await look();
  }
}

function importTree(program: string, name: string, root: string): Promise<void> {
  const tar = spawn('tar', ['-C', root, '--owner=0', '--group=0', '--numeric-owner', '-c', '.'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const into = spawn(program, ['import', '-', name], { stdio: [tar.stdout, 'ignore', 'pipe'] });
  let said = '';
  into.stderr?.on('data', (text: Buffer) => {
    said = `${said}${text.toString()}`.slice(-1000);
  });
  return new Promise((settle, reject) => {
    const refuse = (why: string) =>
      reject(new CodemodeError('unavailable', `${program} can not make the image: ${why}`));
    tar.once('error', (error) => refuse(error.message));
    into.once('error', (error) => refuse(error.message));
    into.once('close', (code) => (code === 0 ? settle() : refuse(said.trim() || `exit code ${code}`)));
  });
}
