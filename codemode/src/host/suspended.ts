/**
 * A suspended run as bytes: a line of JSON that says what it waits for, then the engine's memory, compressed. Only a party that may run
 * code in the engine's process may make one: the memory is restored as it is.
 */
import { gunzipSync, gzipSync } from 'node:zlib';
import { z } from 'zod';
import { CodemodeError } from '../errors.ts';
import { frameBytesMax } from '../protocol/framing.ts';
import type { Suspended } from '../types.ts';
import type { RunEnd, RunPlan } from './run.ts';
import type { ToolSet } from './tool-set.ts';
import { decodeHost } from './values.ts';

const savedSchema = z.strictObject({
  v: z.literal(1),
  executionId: z.string(),
  codec: z.enum(['structured', 'json']),
  tools: z.array(z.string()),
  asked: z.int(),
  parked: z.array(z.strictObject({ call: z.int(), tool: z.int(), text: z.string() })),
});
type Saved = z.infer<typeof savedSchema>;

/** What fits one frame as base64. Few bytes from elsewhere must not become gigabytes here before anybody looks at them. */
const snapshotBytesMax = Math.floor((frameBytesMax * 3) / 4) - 1024;

export function packSuspended(
  plan: RunPlan,
  end: Extract<RunEnd, { readonly type: 'suspended' }>,
): Suspended {
  const saved: Saved = {
    v: 1,
    executionId: plan.executionId,
    codec: plan.codec,
    tools: plan.tools.entries.map((entry) => entry.fullName),
    asked: end.asked.call,
    parked: [...end.parked],
  };
  const head = Buffer.from(`${JSON.stringify(saved)}\n`);
  const args = decodeHost(plan.codec, end.asked.text);
  return {
    snapshot: Buffer.concat([head, gzipSync(Buffer.from(end.snapshot, 'base64'), { level: 1 })]),
    call: end.asked.call,
    tool: plan.tools.entries[end.asked.tool]?.fullName ?? '',
    args: Array.isArray(args) ? args : [],
  };
}

/** @throws CodemodeError of kind `config` where the bytes are no suspended run, or the tools are not the same */
export function unpackSuspended(
  suspended: Pick<Suspended, 'snapshot'>,
  tools: ToolSet,
): { readonly saved: Saved; readonly snapshot: string } {
  const bytes = Buffer.from(suspended.snapshot);
  const end = bytes.indexOf(0x0a);
  let saved: Saved;
  let snapshot: string;
  try {
    saved = savedSchema.parse(JSON.parse(bytes.toString('utf8', 0, end)));
    snapshot = gunzipSync(bytes.subarray(end + 1), { maxOutputLength: snapshotBytesMax }).toString('base64');
  } catch (cause) {
    throw new CodemodeError('config', 'these bytes are no suspended run', { cause });
  }
  const names = tools.entries.map((entry) => entry.fullName);
  if (names.join('\n') !== saved.tools.join('\n')) {
    throw new CodemodeError(
      'config',
      'a suspended run goes on with the tools it was started with, in the same order',
    );
  }
  return { saved, snapshot };
}
