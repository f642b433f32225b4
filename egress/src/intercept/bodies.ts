/**
 * How a body is moved, once it is known what has to be done with it: as it is, looked at, replaced, decoded before.
 * The plan also says what becomes of the headers that describe the body.
 */
import { PassThrough, type Readable, type Writable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import type { RequestSecrets } from '../secrets/request-secrets.ts';
import type { ResponseSecrets } from '../secrets/response-secrets.ts';
import type { ByteFilter } from '../flow/pump.ts';
import { decoderFor, pumpDecoded, pumpWatched } from './codings.ts';
import { tokens, valueOf, valuesOf, without } from './headers.ts';
import { interceptLimits } from './limits.ts';
import { type HeaderList, Unreadable } from './message.ts';
import { type OnBytes, pump } from '../flow/pump.ts';

export interface BodyPlan {
  readonly headers: HeaderList;
  /** Set where the body has to be known before the head can be sent. */
  readonly collect?: (
    source: Readable,
    onBytes: OnBytes,
  ) => Promise<{ readonly headers: HeaderList; readonly body: Buffer }>;
  /** Moves the body. Resolves when all is written; the sink stays open. */
  move(source: Readable, sink: Writable, onBytes: OnBytes): Promise<void>;
}

type Move = BodyPlan['move'];

/** @throws Unreadable */
export function planRequestBody(headers: HeaderList, secrets: RequestSecrets, sandbox: string): BodyPlan {
  const makeFilter = (): ByteFilter | undefined => secrets.bodyFilter(valueOf(headers, 'content-type'));
  if (makeFilter() === undefined) return { headers, move: asItIs };
  refuseCodedMessages(headers);
  const decoder = decoderFor(valueOf(headers, 'content-encoding'), sandbox);
  if (!secrets.replacesBodies) {
    if (decoder === undefined) return { headers, move: filtered(makeFilter) };
    return { headers, move: watched(decoder, makeFilter) };
  }
  const described = decoder === undefined ? headers : without(headers, 'content-encoding');
  const move = decoder === undefined ? filtered(makeFilter) : decoded(decoder, makeFilter);
  const plain = without(described, 'content-length');
  // What a compressed body's length says is not the length of what is collected.
  return decoder === undefined
    ? { ...lengthened(described, move), headers: plain }
    : { headers: plain, move };
}

/** @param asked `accepted`: the program's `Accept-Encoding`, empty where it sent none. @throws Unreadable */
export function planAnswerBody(
  headers: HeaderList,
  secrets: ResponseSecrets,
  asked: { readonly accepted: string; readonly sandbox: string },
): BodyPlan {
  if (!secrets.isNeeded) return { headers, move: asItIs };
  refuseCodedMessages(headers);
  const decoder = decoderFor(valueOf(headers, 'content-encoding'), asked.sandbox);
  const type = valueOf(headers, 'content-type');
  if (decoder !== undefined) {
    // Who did not ask for compression stores what comes as it is: it must not be changed, only stopped.
    if (asked.accepted === '') return { headers, move: watched(decoder, () => secrets.bodyGuard()) };
    const described = without(headers, 'content-encoding', 'content-length');
    return { headers: described, move: decoded(decoder, () => secrets.bodyFilter()) };
  }
  const move = filtered(() => secrets.bodyFilter());
  if (valuesOf(headers, 'content-length').length === 0) return { headers, move };
  // Downloads keep their length, for progress and for resuming; what is replaced in them is fitted.
  if (valuesOf(headers, 'content-range').length > 0 || !isText(type)) {
    const fitted = filtered(() => secrets.fittingFilter());
    return { headers, move: fitted };
  }
  return { ...lengthened(headers, move), headers: without(headers, 'content-length') };
}

/** gRPC and Connect compress each message by itself, inside a framing that is not undone here. @throws Unreadable */
function refuseCodedMessages(headers: HeaderList): void {
  for (const name of messageCodings) {
    const coding = valueOf(headers, name);
    if (coding !== '' && coding.toLowerCase() !== 'identity') {
      throw new Unreadable(`messages in ${JSON.stringify(coding.slice(0, 100))} (${name}) can not be read`);
    }
  }
}

const messageCodings = ['grpc-encoding', 'connect-content-encoding'] as const;

/** For a body whose length changes: a short one is collected, so that its new length is told. */
function lengthened(headers: HeaderList, move: Move): Pick<BodyPlan, 'move' | 'collect'> {
  const length = Number(valueOf(headers, 'content-length') || Number.POSITIVE_INFINITY);
  if (!(length <= interceptLimits.collectedBytesMax)) return { move };
  return {
    move,
    collect: async (source, onBytes) => {
      const collector = new PassThrough();
      const collected = buffer(collector);
      await move(source, collector, onBytes);
      collector.end();
      const body = await collected;
      return {
        headers: [...without(headers, 'content-length'), 'content-length', String(body.length)],
        body,
      };
    },
  };
}

const asItIs: Move = (source, sink, onBytes) => pump(source, sink, { onBytes });

function filtered(make: () => ByteFilter | undefined): Move {
  return (source, sink, onBytes) => pump(source, sink, { filter: make(), onBytes });
}

function decoded(
  decoder: NonNullable<ReturnType<typeof decoderFor>>,
  make: () => ByteFilter | undefined,
): Move {
  return (source, sink, onBytes) =>
    pumpDecoded(source, sink, { decoder: decoder(), filter: make(), onBytes });
}

function watched(
  decoder: NonNullable<ReturnType<typeof decoderFor>>,
  make: () => ByteFilter | undefined,
): Move {
  return (source, sink, onBytes) => {
    const filter = make();
    if (filter === undefined) return pump(source, sink, { onBytes });
    return pumpWatched(source, sink, { decoder: decoder(), filter, onBytes });
  };
}

function isText(type: string): boolean {
  const bare = (tokens(type)[0] ?? '').split(';')[0] ?? '';
  return bare.startsWith('text/') || /json|xml|javascript|x-www-form-urlencoded|yaml|graphql/.test(bare);
}
