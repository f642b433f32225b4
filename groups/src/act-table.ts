/** The actions: what each needs the right to, whom it is about, and what it does, within the transaction of whoever decided. */
import type { ActionRequest } from '@squash/contract/actions';
import { groupLimits } from '@squash/contract/group-limits';
import { type GroupCreate, groupCreateSchema } from '@squash/contract/groups';
import type { Intake } from './intake.ts';
import { leastGapS } from './next-time.ts';
import type { Asked } from './judge.ts';
import type { Registry } from './registry.ts';
import type { GroupRows } from './rows.ts';
import type { Schedules } from './schedules.ts';

/** Who asks: told by the channel. */
export interface Actor {
  readonly group: string;
  readonly run: number;
  /** Of its run. */
  readonly depth: number;
}

export interface Means {
  readonly rows: GroupRows;
  readonly registry: Registry;
  readonly intake: Intake;
  readonly schedules: Schedules;
  readonly nowMs: number;
  /** A person lets it be done. */
  readonly isAllowed: boolean;
}

export interface Asking extends Pick<Means, 'rows' | 'schedules'> {
  readonly askedMs: number;
}

export function askedBy(actor: Actor, request: ActionRequest, { rows, schedules, askedMs }: Asking): Asked {
  switch (request.action) {
    case 'message.send':
      return { right: 'message', isOwn: isOwn(rows, request.chat, actor) };
    case 'run.start':
      return { right: 'start', isOwn: isOwn(rows, request.chat, actor) };
    case 'group.create':
      return { right: 'create', tier: request.tier };
    // Whoever writes there speaks to that group's agent: a way into no group that the asker may not make.
    case 'chat.create': {
      const tier = request.group === actor.group ? undefined : rows.group(request.group)?.body.tier;
      return { right: 'create', ...(tier !== undefined && { tier }) };
    }
    case 'schedule.create':
      return {
        right: 'schedule',
        isOwn: isOwn(rows, request.chat, actor),
        everyS: leastGapS({ ...request, fromMs: askedMs }, askedMs),
      };
    // In its own chat there are others' too: the operator's.
    case 'schedule.pause':
    case 'schedule.resume':
    case 'schedule.remove':
      return {
        right: 'schedule',
        isOwn: isOwn(rows, request.chat, actor) && schedules.isMadeBy(actor.group, request),
        everyS: null,
      };
  }
}

/** A chat that is not there is another's. */
export function isOwn(rows: GroupRows, chat: string, { group }: Pick<Actor, 'group'>): boolean {
  return rows.chat(chat)?.body.group === group;
}

/** The rule that refuses it whatever the tier says; undefined: none. */
export function bounded({ depth }: Actor, { action }: ActionRequest): string | undefined {
  if (action !== 'run.start' || depth < groupLimits.depthMax) return undefined;
  return `depth: runs start runs ${groupLimits.depthMax} deep at most`;
}

/** @throws AppError where it can't be done */
export function perform(
  actor: Actor,
  request: ActionRequest,
  { rows, registry, intake, schedules, nowMs, isAllowed }: Means,
): void {
  switch (request.action) {
    case 'message.send':
      registry.chat(request.chat);
      rows.insertOut({
        chat: request.chat,
        text: request.text,
        by: actor.group,
        run: actor.run,
        action: request.id,
        atMs: nowMs,
      });
      return;
    case 'run.start': {
      registry.chat(request.chat);
      const { chat, text } = request;
      // No sender of a chat system: whoever reads the prompt sees which group it comes from.
      const message = { chat, text, sender: `group:${actor.group}`, depth: actor.depth + 1 };
      intake.putStarting(message, nowMs);
      return;
    }
    case 'group.create': {
      const kept = inherited(registry.group(actor.group).body);
      const body = groupCreateSchema.parse({ ...kept, name: request.name, tier: request.tier });
      registry.createGroup(body, { nowMs, by: actor.group });
      return;
    }
    case 'chat.create': {
      const { chat: name, group, trigger } = request;
      registry.createChat({ name, group, trigger, senders: '*', others: 'context' }, { nowMs });
      return;
    }
    case 'schedule.create': {
      const { id: _id, action: _action, ...body } = request;
      schedules.create(body, { nowMs, by: actor.group, isAllowed });
      return;
    }
    case 'schedule.pause':
      schedules.pause(request.chat, request.name, { by: actor.group });
      return;
    case 'schedule.resume':
      schedules.resume(request.chat, request.name, { nowMs, by: actor.group });
      return;
    case 'schedule.remove':
      schedules.remove(request.chat, request.name);
      return;
  }
}

/** What a group that an agent makes has of its maker's, by name: a field that comes later is not among it. */
function inherited(maker: GroupCreate) {
  const { command, profile, layers, image, memory_mb, timeout_s, idle_timeout_s } = maker;
  const { output_bytes_max, session_mb, cpu, backend } = maker;
  return {
    command,
    profile,
    layers,
    image,
    timeout_s,
    idle_timeout_s,
    output_bytes_max,
    session_mb,
    cpu,
    backend,
    ...(memory_mb !== undefined && { memory_mb }),
  };
}
