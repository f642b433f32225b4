/** Images as the daemon has them: their addresses, and having one pulled while somebody looks on. */
import { statSync } from 'node:fs';
import type { Image, ImagePull, ImagePush } from '@squash/contract/image';
import type { Module } from '@squash/contract/module';
import { apiPath, type Client } from './client/client.ts';
import { CliFailure } from './failure.ts';
import { openImage } from './client/image-source.ts';
import { progressLine, withProgress } from './output/progress.ts';
import { packed } from './sync/send-directory.ts';

export const imagesPath = '/v1/images';

export function imagePath(name: string): string {
  return apiPath(['v1', 'images', name]);
}

/** Where progress is shown, often enough to look alive; elsewhere as seldom as the daemon allows. */
const lookMs = { terminal: 250, elsewhere: 30_000 };

/** @param isAgain the registry is asked even where an image of this name is here */
export async function pullImage(client: Client, reference: string, isAgain = false): Promise<Image> {
  const isShown = process.stderr.isTTY;
  const waitMs = isShown ? lookMs.terminal : lookMs.elsewhere;
  try {
    for (let again = isAgain; ; again = false) {
      const pull = await client.post<ImagePull>(imagesPath, {
        reference,
        wait_ms: waitMs,
        ...(again && { again }),
      });
      if (pull.image !== null) return pull.image;
      if (isShown) show(pull);
    }
  } finally {
    if (isShown) process.stderr.write('\r\u001b[K');
  }
}

/** @param destination undefined: where the image's name says */
export async function pushImage(
  client: Client,
  image: string,
  destination: string | undefined,
): Promise<ImagePush> {
  const isShown = process.stderr.isTTY;
  const body = { destination, wait_ms: isShown ? lookMs.terminal : lookMs.elsewhere };
  try {
    for (;;) {
      const push = await client.post<ImagePush>(apiPath(['v1', 'images', image, 'push']), body);
      if (push.state === 'ready') return push;
      if (isShown) showPush(push);
    }
  } finally {
    if (isShown) process.stderr.write('\r\u001b[K');
  }
}

function showPush({ destination, layers, layers_done: done, bytes, bytes_done: bytesDone }: ImagePush): void {
  const label = `${destination}  ${done} of ${layers} layers`;
  const line = bytes === 0 ? label : progressLine(bytesDone, { label, bytes });
  process.stderr.write(`\r\u001b[K${line}`);
}

function show({ name, layers, layers_done: done, bytes, bytes_done: bytesDone }: ImagePull): void {
  const label = layers === 0 ? `${name}  asking the registry` : `${name}  ${done} of ${layers} layers`;
  const line = layers === 0 ? label : progressLine(bytesDone, { label, bytes });
  process.stderr.write(`\r\u001b[K${line}`);
}

/** Pulled by who may, with progress; who may not gets what is here. */
export async function imageForCreate(client: Client, reference: string): Promise<void> {
  try {
    await pullImage(client, reference);
  } catch (error) {
    // The create says whether the image is here.
    if (!(error instanceof CliFailure) || error.code !== 'forbidden') throw error;
  }
}

/** @param file a tar, `-` for standard input, or a directory that is an OCI layout */
export async function importImage(
  client: Client,
  file: string,
  names: { readonly name: string | undefined; readonly pick: string | undefined },
): Promise<Image> {
  const isDirectory = file !== '-' && statSync(file, { throwIfNoEntry: false })?.isDirectory() === true;
  const source = isDirectory ? { stream: packed(file), bytes: undefined } : await openImage(file);
  const body = withProgress(source.stream, { label: file, bytes: source.bytes });
  return await client.upload<Image>(apiPath(['v1', 'images'], names), body, source.bytes);
}

/** All of an image as one module. */
export async function moduleOfImage(
  client: Client,
  image: Pick<Image, 'name'>,
  { name, replace }: { readonly name: string; readonly replace: boolean },
): Promise<Module> {
  const path = apiPath(['v1', 'images', image.name, 'module']);
  return await client.post<Module>(path, { module: name, replace });
}

/** The last part of a path or a name, without tag and suffix. */
export function plainName(text: string): string {
  const last = text.replace(/\/+$/, '').replace(/^.*\//, '');
  const plain = last.replace(/[:@].*$/, '').replace(/\.(tar|oci)$/, '');
  return plain.replaceAll(/[^A-Za-z0-9]+/g, '-').replaceAll(/^-|-$/g, '') || 'image';
}
