/**
 * A module on its way to a bucket and back, beside the AWS SDK alone, which carries the same file to the same server and back onto
 * the disk.
 */
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { GetObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { TestBucket } from '../../tests/support/bucket.ts';
import { mustRun, timed } from '../measure/process.ts';
import type { Scenario, Subject } from '../measure/scenario.ts';
import { startSquash } from '../squash/daemon.ts';
import { makeTree } from '../squash/file-tree.ts';
import { layerPackFlags } from '../squash/image-tools.ts';
import { type Context, rounds } from './context.ts';

const megabytes = 100;
/** As Squash splits a file. */
const partBytes = 5_242_880;

export async function s3Scenario(context: Context, stack: AsyncDisposableStack): Promise<Scenario> {
  const workDir = join(context.workDir, 's3');
  await mkdir(workDir);
  await makeTree(join(workDir, 'tree'), megabytes);
  const module = join(workDir, 'tree.squashfs');
  await mustRun(['mksquashfs', join(workDir, 'tree'), module, ...layerPackFlags]);
  const bucket = stack.use(await TestBucket.start());
  const { size } = await stat(module);
  return {
    id: 's3',
    title: 'Bucket',
    about: `A module of ${Math.round(size / 1e6)} MB (${megabytes} MB in files of 64 KiB, half random, half text) to a bucket and back, s3rver on loopback, which runs beside it on the same processors. Squash checks digests on both ways, and that what comes is a sound squashfs; it is on the disk before the answer. The SDK alone sends the same parts, and writes what comes to the disk and syncs it.`,
    metrics: [
      { id: 'push', title: 'to the bucket', unit: 'ms' },
      { id: 'pull', title: 'from the bucket', unit: 'ms' },
    ],
    warmups: context.quick ? 0 : 1,
    rounds: rounds(context, 10),
    subjects: [
      'absent' in context.squash
        ? context.squash
        : await squashSubject({ context, workDir, module, bucket }, stack),
      sdkSubject(bucket.client, module),
    ],
  };
}

interface Place {
  readonly context: Context;
  readonly workDir: string;
  readonly module: string;
  readonly bucket: TestBucket;
}

async function squashSubject(
  { context, workDir, module, bucket }: Place,
  stack: AsyncDisposableStack,
): Promise<Subject> {
  const { client } = await startSquash(
    {
      root: join(import.meta.dirname, '../..'),
      dataDir: join(workDir, 'data'),
      rootfs: join(context.workDir, 'rootfs'),
      more: { ...bucket.environment, SQUASH_S3_ENDPOINT: bucket.endpoint },
    },
    stack,
  );
  const bytes = await readFile(module);
  const name = '300-bench-s3';
  return {
    name: 'Squash',
    cycle: async () => {
      await client.importModule(name, bytes);
      // It is on its way behind the answer; this waits until it is there.
      const push = await timed(() => client.bucket('push', { module: name }));
      await client.removeModule(name);
      const pull = await timed(() => client.bucket('pull', { module: name }));
      await client.removeModule(name);
      for (const ending of ['', '.manifest.json'])
        await client.removeObject(`modules/${name}.squashfs${ending}`);
      return { push, pull };
    },
  };
}

function sdkSubject(client: S3Client, module: string): Subject {
  const copy = `${module}.back`;
  const object = { Bucket: 'squash', Key: 'alone' };
  return {
    name: 'the AWS SDK alone',
    cycle: async () => {
      const push = await timed(async () => {
        const params = { ...object, Body: createReadStream(module) };
        await new Upload({ client, params, partSize: partBytes, queueSize: 2 }).done();
      });
      const pull = await timed(async () => {
        const { Body } = await client.send(new GetObjectCommand(object));
        await pipeline(Body as Readable, createWriteStream(copy, { flush: true }));
      });
      await rm(copy);
      return { push, pull };
    },
  };
}
