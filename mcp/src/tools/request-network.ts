/**
 * `request_network`: has a person asked whether the sandbox may reach a place.
 *
 * It asks as any program in the sandbox does: by connecting, where the policy has the rule `ask`. The connection waits for the answer and carries
 * nothing. So a question comes about only where the operator wants to be asked, it is answered where he answers all of them (`squash
 * approve`), and no policy is changed from here.
 */
import { createHash } from 'node:crypto';
import {
  type Approval,
  Conflict,
  NotFound,
  type PolicyTestAnswer,
  type Sandbox,
  TimedOut,
} from '@squash/sdk';
import { z } from 'zod';
import { boxOf, defineTool, sandboxShape, structuredAnswer, type ToolCall } from '../tool.ts';
import { ToolError } from '../tool-error.ts';

const hostSchema = z
  .string()
  .max(253)
  .regex(/^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/, {
    error: 'a name such as api.example.com, or an IPv4 address',
  });

const lookMs = 200;
/** From the connection to the question: a name, a relay that starts, and the first look. */
const comesMs = 10_000;
/** The longest that policies wait for a person. */
const waitsMs = 600_000;

export const requestNetwork = defineTool({
  name: 'request_network',
  title: 'Ask for network access',
  description:
    'Asks a person whether the sandbox may reach a host and port. Answers at once where that is decided already: `allowed`, or `refused`, which only the operator ' +
    'changes. Else the question waits for the person, who answers outside of this conversation: `pending` means that nobody has yet, call again later to look. ' +
    'Say in your own words to the user what you need it for.',
  kind: 'asks',
  input: z.object({
    ...sandboxShape,
    host: hostSchema,
    port: z.int().min(1).max(65_535).default(443),
    wait_seconds: z.number().min(0).max(600).default(30).describe('how long to wait for the person'),
  }),
  output: z.object({
    state: z.enum(['allowed', 'allowed_once', 'pending', 'denied', 'timed_out', 'refused']),
    host: z.string(),
    port: z.int(),
    approval: z.string().optional().describe('id of the question'),
    expires_at: z.string().optional(),
    explanation: z.string(),
  }),
  run: async ({ host, port, wait_seconds, ...where }, call) => {
    const box = await boxOf(where, call);
    const place = { host, port };
    const tested = await box.network.test(`${host}:${port}`);
    if (tested.asked !== true) return structuredAnswer({ ...place, ...decided(tested, box) });
    const earlier = await questions(box, { ...place, call });
    const waits = earlier.find(({ state }) => state === 'pending');
    const question = waits ?? (await ask(box, { ...place, call, earlier }));
    const answered = await wait(question, { call, ms: wait_seconds * 1_000 });
    if (answered.state !== 'pending') await end(box, place);
    return structuredAnswer({ ...place, ...told(answered, box) });
  },
});

interface Wish {
  readonly host: string;
  readonly port: number;
  readonly call: ToolCall;
}

function decided({ allowed, steps }: PolicyTestAnswer, box: Sandbox) {
  if (allowed) return { state: 'allowed', explanation: 'The policy allows it: just connect.' };
  const rule = steps.find((step) => !step.allowed)?.rule ?? 'not_allowed';
  return {
    state: 'refused',
    explanation:
      `The policy refuses it (${rule}) and asks nobody. Only the operator changes that, with ` +
      `\`squash policy allow ${box.id} HOST:PORT\` or \`squash policy ask ${box.id} HOST:PORT\`.`,
  };
}

function told({ id, state, scope, expires_at }: Approval, box: Sandbox) {
  const approval = { approval: id, expires_at };
  switch (state) {
    case 'pending':
      return {
        state,
        ...approval,
        explanation: `A person is asked: \`squash approve\` shows it, \`squash approvals allow ${id} --scope sandbox\` allows it. Nobody has answered yet.`,
      };
    case 'allowed':
      return scope === 'once'
        ? {
            state: 'allowed_once',
            ...approval,
            explanation:
              'A person allowed what waited, and no more: the next connection asks again, and waits until it is answered.',
          }
        : { state, ...approval, explanation: 'A person allowed it: just connect.' };
    case 'denied':
      return { state, ...approval, explanation: 'A person said no. Do without it, or ask the user why.' };
    case 'timed_out':
    case 'withdrawn':
      return {
        state: 'timed_out',
        ...approval,
        explanation: `Nobody answered in time. Tell the user that \`squash approve --watch\` shows such questions, then ask again (sandbox ${box.id}).`,
      };
  }
}

/** What a person was asked about it lately, newest first. */
async function questions(box: Sandbox, { host, port, call }: Wish): Promise<readonly Approval[]> {
  const { squash } = call.session.options;
  const found: Approval[] = [];
  // All that is kept of a sandbox.
  for await (const approval of squash.approvals.list({ sandbox: box.id, limit: 200, signal: call.signal })) {
    const isThat = approval.host === host.toLowerCase() || approval.address === host;
    if (isThat && approval.port === port) found.push(approval);
  }
  return found;
}

/** Whatever the layers have that can connect and then be silent. `$1` and `$2` are words, never part of the program. */
const connect = `if command -v bash >/dev/null; then exec bash -c 'exec 3<>"/dev/tcp/$0/$1" && read -r _ <&3' "$1" "$2"
elif command -v nc >/dev/null; then exec nc "$1" "$2"
elif command -v python3 >/dev/null; then exec python3 -c 'import socket,sys; socket.create_connection((sys.argv[1], int(sys.argv[2]))).recv(1)' "$1" "$2"
else exec curl --silent --output /dev/null "telnet://$1:$2"; fi`;

async function ask(
  box: Sandbox,
  { earlier, ...wish }: Wish & { readonly earlier: readonly Approval[] },
): Promise<Approval> {
  const { host, port, call } = wish;
  const known = new Set(earlier.map(({ id }) => id));
  call.signal.throwIfAborted();
  // Its open input is what keeps `nc` and `curl` there; it ends with the longest time that a policy waits.
  const process = await box.start(['/bin/sh', '-c', connect, 'request_network', host, String(port)], {
    tag: tagOf(wish),
    stdin: true,
    timeout_ms: waitsMs,
    output_bytes_max: 4_096,
  });
  const until = performance.now() + comesMs;
  for (;;) {
    const question = (await questions(box, wish)).find(({ id }) => !known.has(id));
    if (question !== undefined) return question;
    const { state } = await process.refresh();
    if (state === 'ended' || performance.now() > until) break;
    await pause(lookMs, call.signal);
  }
  await end(box, wish);
  throw new ToolError(
    'not_asked',
    `connecting to ${host}:${port} put no question`,
    'Rules that look at requests ask when the request itself is made: make it with curl. Or the sandbox asks too much just now: wait a minute',
  );
}

type Place = Pick<Wish, 'host' | 'port'>;

/** A call that finds the question of an earlier one finds its connection, too. */
function tagOf({ host, port }: Place): string {
  return `ask ${createHash('sha256').update(`${host}:${port}`).digest('hex').slice(0, 32)}`;
}

/** It has done what it was for. */
async function end(box: Sandbox, place: Place): Promise<void> {
  try {
    const process = await box.processes.get(tagOf(place));
    await process.signal('KILL');
    await process.wait({ timeout_ms: 5_000 });
  } catch (error) {
    // It has ended, as most do when they are refused; another program may have put the question.
    if (!(error instanceof NotFound || error instanceof Conflict || error instanceof TimedOut)) throw error;
  }
}

async function wait(
  asked: Approval,
  { call, ms }: { readonly call: ToolCall; readonly ms: number },
): Promise<Approval> {
  const { approvals } = call.session.options.squash;
  const until = performance.now() + ms;
  let [approval, looks] = [asked, 0];
  while (approval.state === 'pending' && performance.now() < until) {
    await pause(lookMs, call.signal);
    approval = await approvals.get(asked.id, { signal: call.signal });
    looks += 1;
    if (looks % 10 === 0)
      call.progress(`waiting for a person to allow ${asked.host ?? asked.address}:${asked.port}`);
  }
  return approval;
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((settle) => setTimeout(settle, ms));
  signal.throwIfAborted();
}
