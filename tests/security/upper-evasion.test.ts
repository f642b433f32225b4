/**
 * Code that fills a directory upper and hinders the accounting: by signals to whoever comes to end it, by moving what
 * is measured. It is ended all the same, and the launcher, which all sandboxes share, waits for none of it.
 */
import assert from 'node:assert/strict';
import { chmod, copyFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { type LaunchedSandbox, launchSandbox } from '../support/launched-sandbox.ts';
import { insideLauncher, type Place } from '../support/launcher.ts';
import { waitFor } from '../support/wait.ts';
import { smallTool } from './tool.ts';

const mebibyte = 2 ** 20;
const bytesMax = 8 * mebibyte;
/** What it would write in a minute: it has to be noticed long before, also on a machine with much else to do. */
const attemptMib = 2_400;

const layer = 'layers/evader';
/** Made when this file runs outside: inside the project can't be written. */
const evader = await smallTool('evader');

async function makeLayer(place: Place): Promise<void> {
  const folder = join(place.dataDir, layer);
  await mkdir(folder);
  await chmod(folder, 0o755);
  const program = join(folder, 'evader');
  await copyFile(evader, program);
  await chmod(program, 0o755);
}

/** Undefined where a signal ended it, or everything in the sandbox was ended. */
async function exitCodeOf(box: LaunchedSandbox, line: string): Promise<number | undefined> {
  try {
    return (await box.sh(line)).exitCode;
  } catch (error) {
    // PID 1 is gone: its socket says so while the command runs, or refuses the next one.
    const isGone = error instanceof Error && /PID 1|ECONNREFUSED|ECONNRESET|ENOENT/.test(error.message);
    assert.ok(isGone, String(error));
    return undefined;
  }
}

await insideLauncher(
  import.meta.filename,
  ['default', 'single', 'fuse', 'user', 'user-single'],
  async (place) => {
    const { client } = place;
    await makeLayer(place);

    const launchBox = (name: string): Promise<LaunchedSandbox> =>
      launchSandbox(place, name, {
        lowers: [layer, place.lower],
        upper: { path: `sandboxes/${name}/uppers/1`, kind: 'directory', bytesMax, inodesMax: 5_000 },
      });

    for (const [what, words] of [
      ['stops whoever comes to end it', 'signal 19'],
      ['kills whoever comes to end it', 'signal 9'],
      ['moves what is measured', 'move'],
    ] as const) {
      test(`a sandbox that ${what} can't go on filling its upper`, async () => {
        const name = words.replace(' ', '-');
        await using box = await launchBox(name);
        assert.equal(await exitCodeOf(box, `/evader ${words} ${attemptMib}`), undefined);
        const usage = await client.upperUsage({ path: `sandboxes/${name}/uppers/1`, kind: 'directory' });
        assert.ok(usage.bytes < (attemptMib * mebibyte) / 4, `${usage.bytes} bytes`);
        // It still serves: a launcher that waits for the sandbox's goodwill would not answer.
        assert.ok((await client.list()).length <= 1);
      });
    }

    test('a sandbox that can not be made to stand still holds nobody else up', async () => {
      await using box = await launchBox('restless');
      const over = box.sh('/evader vfork 600').catch(() => undefined);
      await waitFor('the sleeper', async () => (await box.sh('pidof evader')).exitCode === 0);
      const ends: string[] = [];
      const freeze = client.freeze(box.start.name).then(
        () => 'done',
        (error: Error) => error.message,
      );
      const asked = freeze.then((end) => ends.push(end));
      for (let i = 0; i < 10; i += 1) await client.list();
      ends.push('listed');
      await asked;
      // With a freezer it stands still; by signals it does not, and that takes seconds in which others are served.
      if (ends.includes('done')) await client.thaw(box.start.name);
      else assert.match(ends.join(), /^listed,.*can't freeze/);
      assert.equal((await box.sh('echo on')).exitCode, 0);
      await client.stop(box.start.name);
      await over;
    });

    test('a sandbox that grows through every kill is ended as a whole', async () => {
      await using box = await launchBox('grows');
      const isThere = async (): Promise<boolean> => (await client.list()).length > 0;
      for (let round = 0; round < 12 && (await isThere()); round += 1) {
        await exitCodeOf(box, `i=0; while [ $i -lt 999 ]; do cp /evader /copy-${round}-$i; i=$((i+1)); done`);
      }
      await waitFor('the end', async () => !(await isThere()));
    });
  },
);
