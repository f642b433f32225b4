/** `squash chat rm`: removes chats. */
import type { Call } from '../command.ts';
import { chatsPath, removeAll } from '../group-paths.ts';

export async function run(call: Call): Promise<number> {
  return await removeAll(call, chatsPath);
}
