/** `squash group rm`: removes groups, their chats and folders. */
import type { Call } from '../command.ts';
import { groupsPath, removeAll } from '../group-paths.ts';

export async function run(call: Call): Promise<number> {
  return await removeAll(call, groupsPath);
}
