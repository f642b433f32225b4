/** The tools of an agent's channel, in words for a model: one for each action, and one for each thing to look at. */
import { z } from 'zod';

interface Words {
  readonly description: string;
  /** Of those that are no action: what they take. */
  readonly shape?: z.ZodRawShape;
}

const chat = { chat: z.string().optional().describe('without it: the chat that this run is in') };

export const toolNames = [
  'message_send',
  'run_start',
  'group_create',
  'chat_create',
  'schedule_create',
  'schedule_pause',
  'schedule_resume',
  'schedule_remove',
  'action',
  'self',
  'groups',
  'chats',
  'runs',
  'messages',
  'schedules',
] as const;

export const toolWords: Readonly<Record<(typeof toolNames)[number], Words>> = {
  message_send: {
    description:
      'Says something in a chat at once. What you print is said in your own chat anyway, when your run ends.',
  },
  run_start: { description: 'Gives the agent of a chat something to do, as a message there would.' },
  group_create: {
    description: 'Makes a group of agents with your own command and limits, which reaches nothing.',
  },
  chat_create: {
    description: 'Makes a chat of a group. With a trigger only messages that hold it start a run.',
  },
  schedule_create: {
    description:
      'Has a run begin by itself, with your text as its prompt: by "cron" (with "time_zone"), each "every_s" seconds, or once "at" a time (RFC 3339).',
  },
  schedule_pause: { description: 'Has a schedule rest.' },
  schedule_resume: { description: 'Has a schedule that rests go on.' },
  schedule_remove: { description: 'Removes a schedule.' },
  action: {
    description: 'What became of something you asked for before, such as what waits for a person.',
    shape: { id: z.string().describe('the id that its answer told') },
  },
  self: { description: 'Who you are: group, chat, run, and what your tier lets you do.', shape: {} },
  groups: { description: 'The groups that you may see.', shape: {} },
  chats: { description: 'The chats that you may see.', shape: {} },
  runs: {
    description: 'The last runs of a group.',
    shape: { group: z.string().optional().describe('without it: your own') },
  },
  messages: {
    description: 'What agents said in a chat.',
    shape: { ...chat, after: z.int().optional().describe('only those behind this number') },
  },
  schedules: { description: 'The schedules of a chat.', shape: chat },
};
