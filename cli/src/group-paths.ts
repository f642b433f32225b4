/** Where groups, chats, tiers and schedules are asked for, how a list of them is removed, and how a schedule is paused. */
import type { Schedule } from '@squash/contract/schedules';
import { apiPath, type Query } from './client/client.ts';
import type { Call } from './command.ts';
import { exitCodes } from './failure.ts';
import { printJson, printLine } from './output/print.ts';

export interface All<T> {
  readonly items: readonly T[];
}

export function groupsPath(...more: readonly string[]): string {
  return apiPath(['v1', 'groups', ...more]);
}

export function chatsPath(...more: readonly string[]): string {
  return apiPath(['v1', 'chats', ...more]);
}

export function tiersPath(...more: readonly string[]): string {
  return apiPath(['v1', 'tiers', ...more]);
}

export function actionsPath(more: readonly string[] = [], query: Query = {}): string {
  return apiPath(['v1', 'group-actions', ...more], query);
}

export function schedulesPath(more: readonly string[] = [], query: Query = {}): string {
  return apiPath(['v1', 'schedules', ...more], query);
}

export async function pauseSchedule(
  { client, positionals: [chat = '', name = ''], json }: Call,
  paused: boolean,
): Promise<number> {
  const schedule = await client.patch<Schedule>(schedulesPath([chat, name]), { paused });
  if (json) printJson(schedule);
  else printLine(paused ? name : `${name} comes next at ${schedule.next_at ?? ''}`);
  return exitCodes.ok;
}

export async function removeAll(
  { client, positionals, json }: Call,
  path: (name: string) => string,
): Promise<number> {
  for (const name of positionals) {
    await client.delete(path(name));
    if (!json) printLine(name);
  }
  if (json) printJson({ removed: positionals });
  return exitCodes.ok;
}
