/** Tags: the noun that an operation's id begins with, so that a generated client groups what belongs together. */
import type { Operation } from '@squash/contract/operations/operation';

export const tags = [
  { name: 'sandbox', description: 'Create sandboxes, run commands in them, save them and put them back' },
  { name: 'seed', description: 'The original’s operations on sandboxes' },
  { name: 'process', description: 'Run commands in sandboxes: start, follow, feed, signal, wait' },
  { name: 'context', description: 'Kernels that keep state between the cells that they run' },
  { name: 'file', description: 'Files of a sandbox: read, written, found, watched, packed' },
  { name: 'job', description: 'Commands in the background' },
  { name: 'port', description: 'Ports of programs in sandboxes: who may see them, links, connections' },
  { name: 'caller', description: 'Ports of callers that programs in sandboxes connect to' },
  { name: 'snapshot', description: 'What was written in a sandbox, saved as a file' },
  { name: 'volume', description: 'Directories that outlive sandboxes' },
  { name: 'mount', description: 'What a sandbox has attached, and may attach' },
  { name: 'change', description: 'What a sandbox has written over directories of the host' },
  { name: 'module', description: 'The layers that sandboxes are stacked from' },
  { name: 'bucket', description: 'What is kept beside this machine, in an S3 service' },
  { name: 'image', description: 'OCI images, which sandboxes are made from' },
  { name: 'policy', description: 'What a sandbox may reach' },
  { name: 'approval', description: 'What waits for a person, and what was said of it' },
  { name: 'egress', description: 'What a sandbox asked for, and how it was answered' },
  { name: 'secret', description: 'Keys that sandboxes use and never see' },
  { name: 'key', description: 'Who may ask, and for what' },
  { name: 'ssh_key', description: 'Public keys that log in over SSH' },
  { name: 'ssh', description: 'What the gateway of SSH asks' },
  { name: 'owner', description: 'What everybody has, and may have' },
  { name: 'audit', description: 'Who asked for what' },
  { name: 'ticket', description: 'How a web page opens WebSockets and streams of events' },
  { name: 'event', description: 'What happened to sandboxes' },
  { name: 'webhook', description: 'Events sent to an address, signed' },
  { name: 'tier', description: 'How far the agents of groups are trusted' },
  { name: 'group', description: 'Agents that share a folder and a tier, their runs, and what they ask for' },
  { name: 'chat', description: 'Where messages to groups come in, and answers go out' },
  { name: 'schedule', description: 'Prompts that come to chats at their times' },
  { name: 'daemon', description: 'The daemon itself' },
] as const;

/** An id without a noun, such as `health`, is about the daemon. */
export function tagOf({ id }: Operation): string {
  const noun = id.includes('.') ? id.split('.')[0] : 'daemon';
  const tag = tags.find(({ name }) => name === noun);
  if (tag === undefined) throw new Error(`"${id}" begins with no noun of tools/openapi/tags.ts`);
  return tag.name;
}
