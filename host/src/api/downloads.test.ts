/** A file that is sent: to its end, no faster than it is taken, in few places, and closed whatever the client does. */
import assert from 'node:assert/strict';
import { type FileHandle, open, writeFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { limits } from '@squash/contract/limits';
import { thinEngine } from '../../../tests/support/thin-engine.ts';
import { ThinServer } from '../../../tests/support/thin-server.ts';
import { waitFor } from '../../../tests/support/wait.ts';

const path = '/v1/sandboxes/box/snapshots/one/file';

test('downloads have few places, and each is free again when its client leaves or only asks for the size', async () => {
  const opened: FileHandle[] = [];
  const place = { file: '' };
  await using server = await ThinServer.start(
    thinEngine({
      snapshots: {
        open: async () => {
          const file = await open(place.file);
          opened.push(file);
          return file;
        },
      },
    }),
  );
  place.file = join(server.directory, 'large');
  // More than the sockets on the way hold.
  const bytes = 64 * 1024 * 1024;
  await writeFile(place.file, Buffer.alloc(bytes));
  const isClosed = (): boolean => opened.every(({ fd }) => fd === -1);
  const begin = (): Promise<IncomingMessage> => server.open({ path });
  const readers = [];
  for (let count = 0; count < limits.downloadsMax; count += 1) readers.push(await begin());
  assert.ok(readers.every(({ statusCode }) => statusCode === 200));
  const refused = await server.send({ path });
  assert.deepEqual([refused.status, (refused.json as { code: string }).code], [429, 'stream_limit']);
  for (const reader of readers) reader.destroy();
  await waitFor('the files to be closed', isClosed);
  // A file is closed a moment before its place is free.
  const head = await waitFor('a place', async () => {
    const answer = await server.send({ path, method: 'HEAD' });
    return answer.status !== 429 && answer;
  });
  assert.equal(head.headers['content-length'], `${bytes}`);
  await waitFor('the file to be closed', isClosed);
  const whole = await begin();
  let taken = 0;
  for await (const part of whole) taken += (part as Buffer).length;
  assert.equal(taken, bytes);
  await waitFor('the file to be closed', isClosed);
});
