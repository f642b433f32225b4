/** The operations on schedules. All are the operator's: agents have their channel, where their tier decides. */
import { z } from 'zod';
import { groupLimits } from '../group-limits.ts';
import { chatNameSchema, groupNameSchema } from '../groups.ts';
import {
  scheduleChangeSchema,
  scheduleCreateSchema,
  scheduleNameSchema,
  scheduleRunSchema,
  scheduleSchema,
} from '../schedules.ts';
import { defineOperation, type Operations } from './operation.ts';
import { queryInteger } from './query.ts';

const params = z.strictObject({ chat: chatNameSchema, schedule: scheduleNameSchema });
const all = <T extends z.ZodType>(item: T) => z.strictObject({ items: z.array(item), next: z.null() });

const scheduleCreate = defineOperation({
  id: 'schedule.create',
  method: 'POST',
  path: '/v1/schedules',
  dialect: 'native',
  summary: 'Make a schedule: a prompt that comes to a chat by cron, at an interval, or once',
  body: scheduleCreateSchema,
  answers: [{ status: 201, description: 'The schedule', schema: scheduleSchema }],
  errors: ['chat_not_found', 'schedule_exists', 'schedule_never', 'group_limit', 'disk_full'],
  permission: 'admin',
});

const scheduleList = defineOperation({
  id: 'schedule.list',
  method: 'GET',
  path: '/v1/schedules',
  dialect: 'native',
  summary: 'The schedules, by chat and name',
  query: z.strictObject({
    chat: chatNameSchema.optional().describe('only of this one'),
    group: groupNameSchema.optional().describe('only of this one’s chats'),
  }),
  answers: [{ status: 200, description: 'Schedules, all of them', schema: all(scheduleSchema) }],
  errors: [],
  permission: 'admin',
});

const scheduleGet = defineOperation({
  id: 'schedule.get',
  method: 'GET',
  path: '/v1/schedules/{chat}/{schedule}',
  dialect: 'native',
  summary: 'Look at one schedule',
  params,
  answers: [{ status: 200, description: 'The schedule', schema: scheduleSchema }],
  errors: ['schedule_not_found'],
  permission: 'admin',
});

const scheduleUpdate = defineOperation({
  id: 'schedule.update',
  method: 'PATCH',
  path: '/v1/schedules/{chat}/{schedule}',
  dialect: 'native',
  summary: 'Pause a schedule, or let it go on with the next time that comes',
  params,
  body: scheduleChangeSchema,
  answers: [{ status: 200, description: 'The schedule', schema: scheduleSchema }],
  errors: ['schedule_not_found', 'schedule_never', 'disk_full'],
  permission: 'admin',
});

const scheduleRemove = defineOperation({
  id: 'schedule.remove',
  method: 'DELETE',
  path: '/v1/schedules/{chat}/{schedule}',
  dialect: 'native',
  summary: 'Remove a schedule with its history; a run that it has started goes on',
  params,
  answers: [{ status: 204, description: 'It is gone' }],
  errors: ['schedule_not_found', 'disk_full'],
  permission: 'admin',
});

const scheduleRuns = defineOperation({
  id: 'schedule.runs',
  method: 'GET',
  path: '/v1/schedules/{chat}/{schedule}/runs',
  dialect: 'native',
  summary: 'What became of a schedule’s times, newest first',
  params,
  query: z.strictObject({
    limit: queryInteger('limit', { min: 1, max: groupLimits.pageItemsMax }).describe(
      `at most so many, default ${groupLimits.pageItemsDefault}`,
    ),
  }),
  answers: [{ status: 200, description: 'A line for each time that came', schema: all(scheduleRunSchema) }],
  errors: ['schedule_not_found'],
  permission: 'admin',
});

export const scheduleOperations = {
  'schedule.create': scheduleCreate,
  'schedule.list': scheduleList,
  'schedule.get': scheduleGet,
  'schedule.update': scheduleUpdate,
  'schedule.remove': scheduleRemove,
  'schedule.runs': scheduleRuns,
} as const satisfies Operations;
