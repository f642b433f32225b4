/** The rows of the error catalogue (errors.ts) about groups, their chats and tiers. */
export const groupErrors = {
  tier_not_found: {
    status: 404,
    retry: 'never',
    summary: 'There is no tier of this name',
    remedy: 'List the tiers: `squash tier ls`',
  },
  tier_built_in: {
    status: 409,
    retry: 'never',
    summary: 'The tiers main, trusted and untrusted are what they are',
    remedy: 'Make a tier of another name, and give it to groups',
  },
  tier_in_use: {
    status: 409,
    retry: 'never',
    summary: 'Groups are of this tier, or a tier lets agents make such groups',
    remedy: 'Remove those groups first, or change that tier',
  },
  tier_forbids: {
    status: 403,
    retry: 'never',
    summary: 'The tier does not let its groups have this',
    remedy: 'Ask for less, or for a group of another tier; `squash tier ls --json` has what each allows',
  },
  group_not_found: {
    status: 404,
    retry: 'never',
    summary: 'There is no group of this name',
    remedy: 'List the groups: `squash group ls`',
  },
  group_exists: {
    status: 409,
    retry: 'never',
    summary: 'There is a group of this name',
    remedy: 'Choose another name, or remove that group first',
  },
  group_in_use: {
    status: 409,
    retry: 'later',
    summary: 'A run of the group is on its way',
    remedy: 'Try again when it has ended',
  },
  group_limit: {
    status: 429,
    retry: 'later',
    summary: 'There are as many groups, chats, tiers, schedules, waiting messages or runs as are kept',
    remedy: 'Remove what is not needed, or try again when runs have ended',
  },
  chat_not_found: {
    status: 404,
    retry: 'never',
    summary: 'There is no chat of this name',
    remedy: 'List the chats: `squash chat ls`',
  },
  chat_exists: {
    status: 409,
    retry: 'never',
    summary: 'There is a chat of this name',
    remedy: 'Choose another name, or remove that chat first',
  },
  schedule_not_found: {
    status: 404,
    retry: 'never',
    summary: 'There is no schedule of this name in the chat',
    remedy: 'List the schedules: `squash schedule ls`',
  },
  schedule_exists: {
    status: 409,
    retry: 'never',
    summary: 'There is a schedule of this name in the chat',
    remedy: 'Choose another name, or remove that schedule first',
  },
  schedule_never: {
    status: 400,
    retry: 'never',
    summary: 'The schedule has no time to come',
    remedy: 'Give a time that is to come, and a day that its month has',
  },
  action_not_found: {
    status: 404,
    retry: 'never',
    summary: 'There is no action of this number',
    remedy: 'List what waits: `squash group held`',
  },
  action_decided: {
    status: 409,
    retry: 'never',
    summary: 'The action does not wait for a person',
    remedy: 'Its `state` says what became of it',
  },
} as const;
