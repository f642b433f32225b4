/** The operations on trees and whole files, as `file-operate.ts` has the others. */
import { spawnSync } from 'node:child_process';
import { type FileAttempt, type Ground, harmText } from './file-attempt.ts';
import { told } from './file-operate.ts';

type Operate = FileAttempt['operate'];

const takenBytesMax = 1_048_576;
const entriesMax = 1_000;

const at = (ground: Ground, path: string): string => `${ground.directory}/${path}`;

async function* bytes(content: string | Uint8Array): AsyncGenerator<Uint8Array> {
  yield Buffer.from(content);
}

export const archive =
  (path: string): Operate =>
  (ground) =>
    told(async () => {
      let text = '';
      for await (const chunk of ground.guest.files.archive(at(ground, path))) {
        text += chunk.toString('latin1');
        if (text.length > takenBytesMax) break;
      }
      return text;
    });

export const search =
  (path: string, text: string): Operate =>
  (ground) =>
    told(async () => {
      let found = '';
      const bounds = { text, matchesMax: 100, bytesMax: 16_777_216 };
      for await (const match of ground.guest.files.search(at(ground, path), bounds)) {
        found += `${match.path.toString('latin1')} ${match.text.toString('latin1')}\n`;
      }
      return found;
    });

export const listDeep =
  (path: string): Operate =>
  (ground) =>
    told(async () => {
      let names = '';
      const bounds = { depth: 64, entriesMax };
      for await (const entry of ground.guest.files.list(at(ground, path), bounds)) {
        names += `${entry.path.toString('latin1')}\n`;
      }
      return names;
    });

export const copy =
  (from: string, to: string): Operate =>
  (ground) =>
    told(async () => {
      await ground.guest.files.copy({ from: at(ground, from), to: at(ground, to) }, { recursive: true });
      return 'copied';
    });

export const replace =
  (path: string): Operate =>
  (ground) =>
    told(async () => {
      await ground.guest.files.write(at(ground, path), bytes('overwritten'), { how: 'replace' });
      return 'written';
    });

export const change =
  (path: string, recursive = false): Operate =>
  (ground) =>
    told(async () => {
      await ground.guest.files.change(at(ground, path), { mode: 0o600, recursive });
      return 'changed';
    });

/** A tar of one file of this name, unpacked in the attempt's directory. */
export const unpack =
  (name: string): Operate =>
  (ground) =>
    told(async () => {
      await ground.guest.files.extract(ground.directory, bytes(tarOf(name)));
      return 'unpacked';
    });

const packer = `
import io, sys, tarfile
tar = tarfile.open(fileobj=sys.stdout.buffer, mode="w|")
info = tarfile.TarInfo(sys.argv[1]); info.size = 11
tar.addfile(info, io.BytesIO(b"overwritten"))
tar.close()
`;
const tars = new Map<string, Buffer>();

function tarOf(name: string): Buffer {
  const known = tars.get(name) ?? spawnSync('python3', ['-c', packer, name]).stdout;
  tars.set(name, known);
  return known;
}

/** The victim's mode must stay. */
export const unlessChanged =
  (victim: string, operate: Operate): Operate =>
  async (ground) => {
    const seen = await operate(ground);
    const { mode } = await ground.guest.files.stat(at(ground, victim));
    return mode === 0o755 ? seen : `${harmText}mode ${mode.toString(8)}`;
  };
