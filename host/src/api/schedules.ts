/** `schedule.*`: prompts that come to chats at their times. */
import { groupLimits } from '@squash/contract/group-limits';
import type { scheduleOperations } from '@squash/contract/operations/schedules';
import type { ScheduleOperations } from '@squash/groups/scheduler';
import { empty, json } from '../http/reply.ts';
import type { HandlersOf } from '../http/router.ts';

export function scheduleHandlers(schedules: ScheduleOperations): HandlersOf<typeof scheduleOperations> {
  return {
    'schedule.create': ({ body }) => json(schedules.create(body)),
    'schedule.list': ({ query }) => json({ items: schedules.list(query), next: null }),
    'schedule.get': ({ params: { chat, schedule } }) => json(schedules.get(chat, schedule)),
    'schedule.update': ({ params: { chat, schedule }, body }) => json(schedules.update(chat, schedule, body)),
    'schedule.remove': ({ params: { chat, schedule } }) => {
      schedules.remove(chat, schedule);
      return empty;
    },
    'schedule.runs': ({ params: { chat, schedule }, query: { limit = groupLimits.pageItemsDefault } }) =>
      json({ items: schedules.runs(chat, schedule, limit), next: null }),
  };
}
