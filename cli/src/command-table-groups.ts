/** The rows of `command-table.ts` that concern groups of agents, their tiers and chats. */
import { groupProfiles } from '@squash/contract/group-profiles';
import type { CommandSpec, FlagSpec, PositionalSpec } from './command.ts';
import { clearedChat, clearedGroup } from './group-cleared.ts';

const group: PositionalSpec = { name: 'group', kind: 'group' };
const chat: PositionalSpec = { name: 'chat', kind: 'chat' };
const ofGroup: FlagSpec = { name: 'group', value: 'GROUP', kind: 'group', summary: 'only of this one' };
const limit: FlagSpec = { name: 'limit', value: 'N', summary: 'at most so many (default 100)' };

const groupFlags: readonly FlagSpec[] = [
  {
    name: 'tier',
    value: 'TIER',
    kind: 'tier',
    summary: 'how far its agents are trusted (default untrusted)',
  },
  {
    name: 'layers',
    value: 'NAMES',
    kind: 'module',
    summary: 'layers of its sandboxes, with commas between',
  },
  { name: 'image', value: 'NAME', kind: 'image', summary: 'OCI image below them' },
  {
    name: 'profile',
    value: 'PROFILE',
    choices: groupProfiles,
    summary: 'the host that the command was written for; without a command: what its image begins with',
  },
  { name: 'env', value: 'NAME=VALUE', repeats: true, summary: 'a variable of its command' },
  {
    name: 'reach',
    value: 'DESTINATION',
    repeats: true,
    summary: 'what they may connect to, of what the tier allows',
  },
  {
    name: 'secret',
    value: 'NAME',
    kind: 'secret',
    repeats: true,
    summary: 'a secret they may use, of what the tier allows',
  },
  {
    name: 'mount',
    value: 'DIRECTORY:PATH[:rw]',
    repeats: true,
    summary: 'directory of the host that its runs have, of those the tier and the operator’s list allow',
  },
  { name: 'memory', value: 'MIB', summary: 'memory of one of them' },
  { name: 'cpu', value: 'CPUS', summary: 'processors of one of them, such as 0.5' },
  {
    name: 'backend',
    value: 'WHAT',
    choices: ['chroot', 'vm'],
    summary: 'what isolates them: chroot (namespaces), or vm (a kernel of their own)',
  },
  { name: 'session-mb', value: 'MIB', summary: 'what the session of each chat may take (default 256)' },
  {
    name: 'timeout',
    value: 'SECONDS',
    summary: 'a run that takes longer is ended; else as the tier says',
  },
  {
    name: 'idle-timeout',
    value: 'SECONDS',
    summary: 'a run is ended when nothing comes of it for so long; else as the tier says',
  },
];
const chatFlags: readonly FlagSpec[] = [
  {
    name: 'trigger',
    value: 'TEXT',
    summary: 'what a message begins with that starts a run; none: any does',
  },
  { name: 'sender', value: 'NAME', repeats: true, summary: 'who may start runs; none: everybody' },
  { name: 'drop', summary: "do not store other senders' messages" },
];
/** The opposite of the others: what nobody has said. */
function clear(choices: readonly string[]): FlagSpec {
  return { name: 'clear', value: 'WORD', choices, repeats: true, summary: 'this as if nobody had said it' };
}

export const groupCommands: readonly CommandSpec[] = [
  {
    name: 'group create',
    group: 'group',
    summary: 'make a group: a folder, and a command that is run for its messages',
    positionals: [{ name: 'name', kind: 'text' }],
    flags: groupFlags,
    rest: { after: 1, name: 'command', optional: true },
    notes:
      'squash group create family --tier trusted -- /opt/agent. It runs as uid 1000 in /workspace/group, its home is the chat’s /workspace/session; the messages are its standard input, its output the answer.',
    load: () => import('./commands/group-create.ts'),
  },
  {
    name: 'group set',
    group: 'group',
    summary: 'change a group, for runs that begin later',
    positionals: [group],
    flags: [...groupFlags, clear(Object.keys(clearedGroup))],
    rest: { after: 1, name: 'command', optional: true },
    notes:
      'What is named becomes as it says, a list as a whole. Folder, sessions and chats stay; --session-mb is for sessions that are made later.',
    load: () => import('./commands/group-set.ts'),
  },
  {
    name: 'group ls',
    group: 'group',
    summary: 'list groups',
    positionals: [],
    flags: [],
    load: () => import('./commands/group-ls.ts'),
  },
  {
    name: 'group show',
    group: 'group',
    summary: 'print all that is known of a group',
    positionals: [group],
    flags: [],
    load: () => import('./commands/group-show.ts'),
  },
  {
    name: 'group rm',
    group: 'group',
    summary: 'remove groups with their chats and folders',
    positionals: [{ ...group, repeats: true }],
    flags: [],
    load: () => import('./commands/group-rm.ts'),
  },
  {
    name: 'group runs',
    group: 'group',
    summary: 'list the runs of a group, newest first',
    positionals: [group],
    flags: [limit],
    load: () => import('./commands/group-runs.ts'),
  },
  {
    name: 'group held',
    group: 'group',
    summary: 'list what agents have asked for and waits for a person',
    positionals: [],
    flags: [
      {
        name: 'state',
        value: 'STATE',
        choices: ['done', 'held', 'denied', 'failed'],
        summary: 'done, held (default), denied or failed',
      },
      ofGroup,
      limit,
    ],
    load: () => import('./commands/group-held.ts'),
  },
  {
    name: 'group decide',
    group: 'group',
    summary: 'allow what an agent waits for, or refuse it',
    positionals: [
      { name: 'number', kind: 'held' },
      { name: 'decision', kind: 'text', choices: ['allow', 'deny'] },
    ],
    flags: [{ name: 'reason', value: 'TEXT', summary: 'for the agent' }],
    load: () => import('./commands/group-decide.ts'),
  },
  {
    name: 'chat create',
    group: 'group',
    summary: 'make a chat of a group',
    positionals: [{ name: 'name', kind: 'text' }, group],
    flags: chatFlags,
    load: () => import('./commands/chat-create.ts'),
  },
  {
    name: 'chat set',
    group: 'group',
    summary: 'change what starts runs in a chat, for messages that come later',
    positionals: [chat],
    flags: [...chatFlags, clear(Object.keys(clearedChat))],
    load: () => import('./commands/chat-set.ts'),
  },
  {
    name: 'chat ls',
    group: 'group',
    summary: 'list chats',
    positionals: [],
    flags: [],
    load: () => import('./commands/chat-ls.ts'),
  },
  {
    name: 'chat rm',
    group: 'group',
    summary: 'remove chats with all that was said in them, and their sessions',
    positionals: [{ ...chat, repeats: true }],
    flags: [],
    load: () => import('./commands/chat-rm.ts'),
  },
  {
    name: 'chat reset',
    group: 'group',
    summary: 'throw the sessions of chats away: their next runs begin new conversations',
    positionals: [{ ...chat, repeats: true }],
    flags: [],
    load: () => import('./commands/chat-reset.ts'),
  },
  {
    name: 'chat message',
    group: 'group',
    summary: 'bring a message in, as its sender',
    positionals: [chat, { name: 'text', kind: 'text' }],
    flags: [
      { name: 'sender', value: 'NAME', summary: 'who says it (default operator)' },
      { name: 'id', value: 'ID', summary: 'a message that comes again with it is the first one' },
    ],
    load: () => import('./commands/chat-message.ts'),
  },
  {
    name: 'chat read',
    group: 'group',
    summary: 'print what agents have said in a chat',
    positionals: [chat],
    flags: [
      { name: 'after', value: 'N', summary: 'only what is behind this number' },
      limit,
      {
        name: 'follow',
        short: 'f',
        summary: 'print what is said from now on, or behind --after, as it is said',
      },
    ],
    load: () => import('./commands/chat-read.ts'),
  },
  {
    name: 'tier ls',
    group: 'group',
    summary: 'list tiers: what agents may do, to their own group and to others',
    positionals: [],
    flags: [],
    load: () => import('./commands/tier-ls.ts'),
  },
  {
    name: 'tier set',
    group: 'group',
    summary: 'make a tier of a JSON file, or change one',
    positionals: [
      { name: 'name', kind: 'tier' },
      { name: 'file', kind: 'file' },
    ],
    flags: [],
    notes:
      'squash tier ls --json shows the shape, of which "name" and "built_in" are left out; "-" reads standard input.',
    load: () => import('./commands/tier-set.ts'),
  },
  {
    name: 'tier rm',
    group: 'group',
    summary: 'remove tiers that no group is of',
    positionals: [{ name: 'name', kind: 'tier', repeats: true }],
    flags: [],
    load: () => import('./commands/tier-rm.ts'),
  },
];
