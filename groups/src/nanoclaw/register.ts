/** What a file of v1 asks for, as actions of the channel, one after the other; nothing that the file says of its writer is used. */
import { type ChannelClient, type Fields, itemsOf, type Outcome, textOf } from './channel-client.ts';
import { timedBy, timingOf } from './tasks.ts';

export interface Done {
  readonly outcome: Outcome;
  /** What was asked for, in words for the agent. */
  readonly what: string;
}

const ends = { done: 'is done', held: 'waits for a person', denied: 'is denied', failed: 'failed' } as const;

/** What the agent is told of it. */
export function told({ what, outcome: { state, why } }: Done): string {
  return `[squash] ${what} ${ends[state]}: ${why}`;
}

/** Of one message. */
const messageBytesMax = 16_384;

export async function send(channel: ChannelClient, about: string, asked: Fields): Promise<Done> {
  const [chat, text] = [textOf(asked['chatJid']), textOf(asked['text'])];
  if (asked['type'] !== 'message' || chat === undefined || text === undefined)
    return failed('A message', 'it has no type "message", or chatJid or text is missing');
  const what = `The message to "${chat}"`;
  for (const piece of pieces(text)) {
    const outcome = await channel.act(about, { action: 'message.send', chat, text: piece });
    if (outcome.state !== 'done') return { outcome, what };
  }
  return { outcome: done, what };
}

/** In bytes, without half a character. */
function pieces(text: string): readonly string[] {
  const bytes = Buffer.from(text);
  const parts: string[] = [];
  for (let at = 0; at < bytes.length; ) {
    let end = Math.min(bytes.length, at + messageBytesMax);
    while (end < bytes.length && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
    parts.push(bytes.subarray(at, end).toString('utf8'));
    at = end;
  }
  return parts;
}

export async function task(channel: ChannelClient, about: string, asked: Fields): Promise<Done> {
  switch (asked['type']) {
    case 'schedule_task':
      return await schedule(channel, about, asked);
    case 'pause_task':
    case 'resume_task':
    case 'cancel_task':
    case 'update_task': {
      const what = `To ${verbs[asked['type']]} the task "${textOf(asked['taskId']) ?? ''}"`;
      const old = await found(channel, asked);
      if (old === undefined) return failed(what, 'there is none of this name');
      if (asked['type'] === 'update_task') return await update(channel, about, { asked, old, what });
      const { chat, name } = old;
      const action = `schedule.${verbs[asked['type']]}`;
      return { what, outcome: await channel.act(about, { action, chat, name }) };
    }
    case 'register_group':
      return await register(channel, about, asked);
    case 'refresh_groups':
      // The list is written anew behind each of these.
      return { outcome: done, what: 'To refresh the groups' };
    default:
      return failed('A task', `nothing is known of the type ${JSON.stringify(asked['type'] ?? null)}`);
  }
}

const verbs = {
  pause_task: 'pause',
  resume_task: 'resume',
  cancel_task: 'remove',
  update_task: 'change',
} as const;
const done: Outcome = { state: 'done', why: '' };

function failed(what: string, why: string): Done {
  return { what, outcome: { state: 'failed', why } };
}

async function schedule(channel: ChannelClient, about: string, asked: Fields): Promise<Done> {
  const name = textOf(asked['taskId']) ?? `task-${Math.random().toString(36).slice(2, 10)}`;
  const what = `The task "${name}"`;
  const chat = textOf(asked['targetJid']) ?? process.env['SQUASH_CHAT'];
  const text = textOf(asked['prompt']);
  if (text === undefined) return failed(what, 'prompt is missing');
  // Without it the task would run at times at which its script has it rest.
  if (textOf(asked['script']) !== undefined) return failed(what, 'scripts of tasks are not run here');
  const timing = timingOf({
    type: textOf(asked['schedule_type']) ?? '',
    value: textOf(asked['schedule_value']),
  });
  if (typeof timing === 'string') return failed(what, timing);
  const context = asked['context_mode'] === 'group' ? 'group' : 'isolated';
  const wish = { action: 'schedule.create', chat, name, text, context, ...timing };
  return { what, outcome: await channel.act(about, wish) };
}

/** The channel knows schedules by chat and name, the original by name. */
async function found(channel: ChannelClient, { taskId }: Fields): Promise<Fields | undefined> {
  const named = itemsOf(await channel.look('/schedules')).filter(({ name }) => name === taskId);
  return named.find(({ chat }) => chat === process.env['SQUASH_CHAT']) ?? named[0];
}

/**
 * There is no such action. The changed task is made under another name first: it is judged by that, and at no time is there none.
 */
async function update(
  channel: ChannelClient,
  about: string,
  { asked, old, what }: { readonly asked: Fields; readonly old: Fields; readonly what: string },
): Promise<Done> {
  const { chat, name, context, missed, state } = old;
  if (textOf(asked['script']) !== undefined) return failed(what, 'scripts of tasks are not run here');
  const before = timedBy(old);
  const isTimed = asked['schedule_type'] !== undefined || asked['schedule_value'] !== undefined;
  const timing = isTimed
    ? timingOf({
        type: textOf(asked['schedule_type']) ?? before.type,
        value: textOf(asked['schedule_value']) ?? before.value,
      })
    : fieldsOfTiming(old);
  if (typeof timing === 'string') return failed(what, timing);
  const text = textOf(asked['prompt']) ?? old['text'];
  const made = { action: 'schedule.create', chat, text, context, missed, ...timing };
  const spare = `${(textOf(name) ?? '').slice(0, 59)}-next`;
  const steps: readonly Fields[] = [
    { ...made, name: spare },
    { action: 'schedule.remove', chat, name },
    { ...made, name },
    ...(state === 'paused' ? [{ action: 'schedule.pause', chat, name }] : []),
    { action: 'schedule.remove', chat, name: spare },
  ];
  for (const [at, step] of steps.entries()) {
    const outcome = await channel.act(about, step);
    if (outcome.state === 'done') continue;
    const left = at === 0 ? '' : ` (the changed task is "${spare}")`;
    return { what, outcome: { ...outcome, why: `${outcome.why}${left}` } };
  }
  return { what, outcome: done };
}

function fieldsOfTiming({ cron, time_zone: zone, every_s: everyS, at }: Fields): Fields {
  if (typeof cron === 'string') return { cron, ...(typeof zone === 'string' && { time_zone: zone }) };
  return typeof everyS === 'number' ? { every_s: everyS } : { at };
}

/** A group is never more than `untrusted` by this; what more a file asks for, such as mounts, is the operator's. */
async function register(channel: ChannelClient, about: string, asked: Fields): Promise<Done> {
  const [chat, group, trigger] = ['jid', 'folder', 'trigger'].map((name) => textOf(asked[name]));
  const what = `To register "${chat ?? ''}"`;
  if (chat === undefined || group === undefined) return failed(what, 'jid or folder is missing');
  const isThere = itemsOf(await channel.look('/groups')).some(({ name }) => name === group);
  if (!isThere) {
    const made = await channel.act(about, { action: 'group.create', name: group, tier: 'untrusted' });
    // What waits for a person is followed by what waits for it.
    if (made.state !== 'done' && made.state !== 'held') return { what, outcome: made };
  }
  const wish = { chat, group, trigger: asked['requiresTrigger'] === false ? null : (trigger ?? null) };
  return { what, outcome: await channel.act(about, { action: 'chat.create', ...wish }) };
}
