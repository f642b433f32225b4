/**
 * The operations on groups, their tiers and chats. All are the operator's: agents have their channel, where their tier decides.
 */
import { z } from 'zod';
import { actionDecisionSchema, actionSchema, actionStates } from '../actions.ts';
import { groupLimits } from '../group-limits.ts';
import {
  chatChangeSchema,
  chatCreateSchema,
  chatNameSchema,
  chatSchema,
  groupChangeSchema,
  groupCreateSchema,
  groupNameSchema,
  groupSchema,
  messageBodySchema,
  messageTakenSchema,
  outMessageSchema,
  outPageSchema,
  runSchema,
} from '../groups.ts';
import { tierBodySchema, tierNameSchema, tierSchema } from '../tiers.ts';
import { defineOperation, type Operations } from './operation.ts';
import { queryInteger } from './query.ts';

const tierParams = z.strictObject({ tier: tierNameSchema });
const groupParams = z.strictObject({ group: groupNameSchema });
const chatParams = z.strictObject({ chat: chatNameSchema });
const limit = queryInteger('limit', { min: 1, max: groupLimits.pageItemsMax }).describe(
  `at most so many, default ${groupLimits.pageItemsDefault}`,
);
const all = <T extends z.ZodType>(item: T) => z.strictObject({ items: z.array(item), next: z.null() });

const tierList = defineOperation({
  id: 'tier.list',
  method: 'GET',
  path: '/v1/tiers',
  dialect: 'native',
  summary: 'The tiers: how far agents are trusted, as data',
  answers: [{ status: 200, description: 'Those that are built in, then by name', schema: all(tierSchema) }],
  errors: [],
  permission: 'admin',
});

const tierSet = defineOperation({
  id: 'tier.set',
  method: 'PUT',
  path: '/v1/tiers/{tier}',
  dialect: 'native',
  summary: 'Make a tier, or change one',
  description: 'It holds at once for what agents ask for, and for sandboxes of runs that begin later.',
  params: tierParams,
  body: tierBodySchema,
  answers: [{ status: 200, description: 'The tier', schema: tierSchema }],
  errors: ['tier_built_in', 'tier_not_found', 'group_limit', 'disk_full'],
  permission: 'admin',
});

const tierRemove = defineOperation({
  id: 'tier.remove',
  method: 'DELETE',
  path: '/v1/tiers/{tier}',
  dialect: 'native',
  summary: 'Remove a tier that no group is of',
  params: tierParams,
  answers: [{ status: 204, description: 'It is gone' }],
  errors: ['tier_built_in', 'tier_not_found', 'tier_in_use', 'disk_full'],
  permission: 'admin',
});

const groupCreate = defineOperation({
  id: 'group.create',
  method: 'POST',
  path: '/v1/groups',
  dialect: 'native',
  summary: 'Make a group: a folder, a command, and a tier that says what its agents may do',
  body: groupCreateSchema,
  answers: [{ status: 201, description: 'The group', schema: groupSchema }],
  errors: [
    'tier_not_found',
    'tier_forbids',
    'host_directory_refused',
    'group_exists',
    'group_limit',
    'disk_full',
  ],
  permission: 'admin',
});

const groupList = defineOperation({
  id: 'group.list',
  method: 'GET',
  path: '/v1/groups',
  dialect: 'native',
  summary: 'The groups, by name',
  answers: [{ status: 200, description: 'Groups, all of them', schema: all(groupSchema) }],
  errors: [],
  permission: 'admin',
});

const groupGet = defineOperation({
  id: 'group.get',
  method: 'GET',
  path: '/v1/groups/{group}',
  dialect: 'native',
  summary: 'Look at one group',
  params: groupParams,
  answers: [{ status: 200, description: 'The group', schema: groupSchema }],
  errors: ['group_not_found'],
  permission: 'admin',
});

const groupUpdate = defineOperation({
  id: 'group.update',
  method: 'PATCH',
  path: '/v1/groups/{group}',
  dialect: 'native',
  summary: 'Change a group: what is named becomes as it says, a list as a whole',
  description:
    'It holds at once for what its agents ask for, and for the sandboxes of runs that begin later; `session_mb` for sessions that are made later. Folder, sessions and chats stay.',
  params: groupParams,
  body: groupChangeSchema,
  answers: [{ status: 200, description: 'The group', schema: groupSchema }],
  errors: ['group_not_found', 'tier_not_found', 'tier_forbids', 'host_directory_refused', 'disk_full'],
  permission: 'admin',
});

const groupRemove = defineOperation({
  id: 'group.remove',
  method: 'DELETE',
  path: '/v1/groups/{group}',
  dialect: 'native',
  summary: 'Remove a group with its chats, what waits in them, their sessions, and its folder',
  params: groupParams,
  answers: [{ status: 204, description: 'It is gone' }],
  errors: ['group_not_found', 'group_in_use', 'volume_in_use', 'disk_full'],
  permission: 'admin',
});

const groupRuns = defineOperation({
  id: 'group.runs',
  method: 'GET',
  path: '/v1/groups/{group}/runs',
  dialect: 'native',
  summary: 'The runs of a group, newest first',
  params: groupParams,
  query: z.strictObject({ limit }),
  answers: [{ status: 200, description: 'Runs', schema: all(runSchema) }],
  errors: ['group_not_found'],
  permission: 'admin',
});

const groupActions = defineOperation({
  id: 'group.actions',
  method: 'GET',
  path: '/v1/group-actions',
  dialect: 'native',
  summary: 'What agents have asked for, newest first: `state=held` is what waits for a person',
  query: z.strictObject({
    state: z.enum(actionStates).optional(),
    group: groupNameSchema.optional().describe('only of this one’s agents'),
    limit,
  }),
  answers: [{ status: 200, description: 'Actions', schema: all(actionSchema) }],
  errors: [],
  permission: 'admin',
});

const groupDecide = defineOperation({
  id: 'group.decide',
  method: 'POST',
  path: '/v1/group-actions/{number}',
  dialect: 'native',
  summary: 'Allow what an agent waits for, which does it once, or refuse it',
  description: 'What the group’s tier refuses by now is refused, whatever is decided.',
  params: z.strictObject({
    number: z
      .string()
      .regex(/^\d{1,15}$/, { error: 'number must be that of an action' })
      .transform(Number)
      .meta({ type: 'integer' }),
  }),
  body: actionDecisionSchema,
  answers: [{ status: 200, description: 'The action, and what became of it', schema: actionSchema }],
  errors: ['action_not_found', 'action_decided', 'disk_full'],
  permission: 'admin',
});

const chatCreate = defineOperation({
  id: 'chat.create',
  method: 'POST',
  path: '/v1/chats',
  dialect: 'native',
  summary: 'Make a chat of a group: where messages come in, and its agents’ answers go out',
  body: chatCreateSchema,
  answers: [{ status: 201, description: 'The chat', schema: chatSchema }],
  errors: ['group_not_found', 'chat_exists', 'group_limit', 'disk_full'],
  permission: 'admin',
});

const chatList = defineOperation({
  id: 'chat.list',
  method: 'GET',
  path: '/v1/chats',
  dialect: 'native',
  summary: 'The chats, by name',
  answers: [{ status: 200, description: 'Chats, all of them', schema: all(chatSchema) }],
  errors: [],
  permission: 'admin',
});

const chatUpdate = defineOperation({
  id: 'chat.update',
  method: 'PATCH',
  path: '/v1/chats/{chat}',
  dialect: 'native',
  summary: 'Change what starts runs in a chat, for messages that come later',
  params: chatParams,
  body: chatChangeSchema,
  answers: [{ status: 200, description: 'The chat', schema: chatSchema }],
  errors: ['chat_not_found', 'disk_full'],
  permission: 'admin',
});

const chatRemove = defineOperation({
  id: 'chat.remove',
  method: 'DELETE',
  path: '/v1/chats/{chat}',
  dialect: 'native',
  summary: 'Remove a chat with all that was said in it, and its session',
  params: chatParams,
  answers: [{ status: 204, description: 'It is gone' }],
  errors: ['chat_not_found', 'group_in_use', 'volume_in_use', 'disk_full'],
  permission: 'admin',
});

const chatReset = defineOperation({
  id: 'chat.reset',
  method: 'POST',
  path: '/v1/chats/{chat}/reset',
  dialect: 'native',
  summary: 'Throw a chat’s session away: its next run begins a new conversation',
  description: 'What was said in the chat and the group’s folder stay as they are.',
  params: chatParams,
  answers: [{ status: 204, description: 'The session is gone, or there was none' }],
  errors: ['chat_not_found', 'group_in_use', 'volume_in_use', 'disk_full'],
  permission: 'admin',
});

const chatMessage = defineOperation({
  id: 'chat.message',
  method: 'POST',
  path: '/v1/chats/{chat}/messages',
  dialect: 'native',
  summary: 'Bring a message in: the chat’s rules say whether it starts a run',
  description:
    'The answer comes when the message is stored. A run has all messages that wait in its chat when it begins; with `id` a message may be sent again.',
  params: chatParams,
  body: messageBodySchema,
  answers: [{ status: 202, description: 'What becomes of it', schema: messageTakenSchema }],
  errors: ['chat_not_found', 'group_limit', 'disk_full'],
  permission: 'admin',
});

const chatRead = defineOperation({
  id: 'chat.read',
  method: 'GET',
  path: '/v1/chats/{chat}/messages',
  dialect: 'native',
  summary: 'What agents have said in a chat, oldest first',
  description:
    'Whoever brings it on keeps the number of the last one, and asks for what is `after` it. With `follow=true` server-sent events: one ' +
    '`position`, which says behind which number it begins, then `said`, whose `id` is the number. `Last-Event-ID` or `after` resumes behind one, without ' +
    'either it begins with what is said next.',
  params: chatParams,
  query: z.strictObject({
    after: queryInteger('after', { min: 0, max: Number.MAX_SAFE_INTEGER }).describe('only later ones'),
    limit,
    follow: z
      .enum(['true', 'false'], { error: 'follow must be true or false' })
      .optional()
      .describe('`true`: server-sent events, each as it is said'),
  }),
  answers: [{ status: 200, description: 'Messages', schema: outPageSchema }],
  events: {
    position: z.strictObject({ after: z.int() }),
    said: outMessageSchema,
  },
  errors: ['chat_not_found', 'stream_limit'],
  permission: 'admin',
});

export const groupOperations = {
  'tier.list': tierList,
  'tier.set': tierSet,
  'tier.remove': tierRemove,
  'group.create': groupCreate,
  'group.list': groupList,
  'group.get': groupGet,
  'group.update': groupUpdate,
  'group.remove': groupRemove,
  'group.runs': groupRuns,
  'group.actions': groupActions,
  'group.decide': groupDecide,
  'chat.create': chatCreate,
  'chat.list': chatList,
  'chat.update': chatUpdate,
  'chat.remove': chatRemove,
  'chat.reset': chatReset,
  'chat.message': chatMessage,
  'chat.read': chatRead,
} as const satisfies Operations;
