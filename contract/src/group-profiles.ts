/** Agent runners that were written for another host than Squash: what of a group has to be as theirs is. */

export const groupProfiles = ['nanoclaw-v1', 'nanoclaw-v2'] as const;
export type GroupProfile = (typeof groupProfiles)[number];

/** What the image of each begins with. */
export const profileCommands: Readonly<Record<GroupProfile, readonly string[]>> = {
  'nanoclaw-v1': ['/app/entrypoint.sh'],
  // Its entry point does no more; the sources are a layer's, or a mount's.
  'nanoclaw-v2': ['bun', 'run', '/app/src/index.ts'],
};
