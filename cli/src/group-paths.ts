/** Where groups, chats and tiers are asked for, and how a list of them is removed. */
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
