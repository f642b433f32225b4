/** What the host accepts from a worker: hostile input, since an engine may have been taken over. */
import { z } from 'zod';
import { frameBytesMax } from './framing.ts';

const nonce = z.string().max(64);
const text = z.string().max(frameBytesMax);
const count = z.int().min(0).max(1_000_000_000);

export const workerFrameSchema = z.discriminatedUnion('t', [
  z.strictObject({ t: z.literal('ready'), v: z.int(), engine: z.string().max(64) }),
  z.strictObject({ t: z.literal('call'), nonce, call: z.int().min(1).max(1_000_000_000), tool: count, text }),
  z.strictObject({
    t: z.literal('log'),
    nonce,
    level: z.enum(['log', 'info', 'debug', 'trace', 'warn', 'error']),
    text,
  }),
  z.strictObject({ t: z.literal('out'), nonce, block: text }),
  z.strictObject({ t: z.literal('unhandled'), nonce, text: z.string().max(16_384) }),
  z.strictObject({
    t: z.literal('done'),
    nonce,
    ok: z.boolean(),
    text: text.optional(),
    error: z
      .strictObject({
        kind: z.enum(['runtime', 'serialization', 'result-limit', 'syntax', 'memory', 'crash', 'cpu']),
        name: z.string().max(16_384),
        message: z.string().max(16_384),
        stack: z.string().max(16_384).optional(),
      })
      .optional(),
    dropped: count,
  }),
  z.strictObject({ t: z.literal('snapshot'), nonce, bytes: text }),
  z.strictObject({ t: z.literal('fatal'), message: z.string().max(16_384) }),
]);

export type CheckedFrame = z.infer<typeof workerFrameSchema>;

/** `content` of an `out` frame, which the code chose. */
export const contentBlockSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text'), text: z.string() }),
  z.strictObject({ type: z.literal('image'), data: z.string(), mimeType: z.string().max(256) }),
]);
