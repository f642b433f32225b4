/**
 * Ends of what a bucket answers with. The library holds every answer but a file's in memory, whole, before it looks at it, and a
 * service (or what stands before it) may send one for ever.
 */
import { pipeline, Readable, Transform } from 'node:stream';
import type { S3Client } from '@aws-sdk/client-s3';
import { Failure } from '@squash/base/failure';

/** A list of a thousand of the longest keys, each character of which is written as five. */
const answerBytesMax = 6_291_456;
const refusalBytesMax = 65_536;
/** It stands in answers, in the log and on terminals. */
const messageCharsMax = 1_000;

export function boundAnswers({ middlewareStack }: S3Client): void {
  middlewareStack.add(
    (next, { commandName }) =>
      async (args) => {
        const result = await next(args);
        const answer = result.response as { readonly statusCode: number; body: unknown };
        const isRefusal = answer.statusCode >= 300;
        // An object's bytes are counted by who reads them.
        if (answer.body instanceof Readable && (isRefusal || commandName !== 'GetObjectCommand'))
          answer.body = bounded(answer.body, isRefusal ? refusalBytesMax : answerBytesMax);
        return result;
      },
    // Right behind what sends the request, before anything of the answer is read.
    { name: 'boundAnswers', step: 'deserialize', priority: 'low' },
  );
  middlewareStack.add(
    (next) => async (args) => {
      try {
        return await next(args);
      } catch (error) {
        if (error instanceof Error && error.message.length > messageCharsMax)
          error.message = `${error.message.slice(0, messageCharsMax)}…`;
        throw error;
      }
    },
    { name: 'cutMessages', step: 'initialize', priority: 'high' },
  );
}

function bounded(body: Readable, bytesMax: number): Readable {
  let bytes = 0;
  const limited = new Transform({
    transform(piece: Buffer, _, done) {
      bytes += piece.length;
      if (bytes > bytesMax) done(new Failure('bucket_answer', `its answer is longer than ${bytesMax} bytes`));
      else done(null, piece);
    },
  });
  // Whoever reads hears of a failure from what he reads.
  return pipeline(body, limited, () => {});
}
