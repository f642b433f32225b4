/** What `--clear WORD` of `squash group set` and `squash chat set` says: as if nobody had said it. By itself, for the table of commands has the words. */
import type { ChatChange, GroupChange } from '@squash/contract/groups';

export const clearedGroup = {
  profile: { profile: null },
  layers: { layers: [] },
  image: { image: null },
  env: { env: {} },
  reach: { reach: [] },
  secret: { secrets: [] },
  mount: { mounts: [] },
  memory: { memory_mb: null },
  cpu: { cpu: null },
  backend: { backend: null },
  timeout: { timeout_s: null },
  'idle-timeout': { idle_timeout_s: null },
} satisfies Record<string, GroupChange>;

export const clearedChat = {
  trigger: { trigger: null },
  sender: { senders: '*' },
  drop: { others: 'context' },
} satisfies Record<string, ChatChange>;
