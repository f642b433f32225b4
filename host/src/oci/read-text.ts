/** A small answer whole. */
import { AppError } from '@squash/contract/errors';
import { type Answered, reasonOf } from './registry-request.ts';

/** @throws registry_unavailable where it is longer or breaks off */
export async function readBody({ body, url }: Answered, bytesMax: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const part of body as AsyncIterable<Buffer>) {
      bytes += part.length;
      if (bytes > bytesMax)
        throw new AppError(
          'image_invalid',
          `Cannot use the image: ${url.host} answers with more than ${bytesMax} bytes`,
        );
      parts.push(part);
    }
  } catch (cause) {
    if (cause instanceof AppError) throw cause;
    throw new AppError(
      'registry_unavailable',
      `Cannot use registry "${url.host}": it ${reasonOf(cause as Error)}`,
      { cause },
    );
  } finally {
    body.destroy();
  }
  return Buffer.concat(parts);
}

export async function readText(answer: Answered, bytesMax: number): Promise<string> {
  return (await readBody(answer, bytesMax)).toString('utf8');
}
