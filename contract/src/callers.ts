/** Ports of callers that programs in sandboxes may connect to: what is said over an offer. */
import { z } from 'zod';

/** Unguessable: whoever takes a connection has been told of it. */
export const callerConnectionSchema = z
  .string()
  .regex(/^[0-9a-f]{32}$/, { error: 'connection must be one that the offer has told of' });

/** A text message of `squash.caller.v1` from the daemon; `error` is its last. */
export const callerEventSchema = z.discriminatedUnion('type', [
  /** From now on connections come. */
  z.strictObject({ type: z.literal('offered') }),
  /** A program waits on it for seconds: take it over a WebSocket of its own, or refuse it. */
  z.strictObject({ type: z.literal('connection'), connection: callerConnectionSchema }),
  z.strictObject({ type: z.literal('error'), code: z.string(), message: z.string() }),
]);
export type CallerEvent = z.infer<typeof callerEventSchema>;

/** … and from the client: nobody answers at the port, and the program hears a reset at once. */
export const callerControlSchema = z.strictObject({
  type: z.literal('refuse'),
  connection: callerConnectionSchema,
});
export type CallerControl = z.infer<typeof callerControlSchema>;
