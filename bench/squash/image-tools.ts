/** The settings with which Squash itself packs and unpacks (`native/launch`), for the bare tools beside it. */
export const packFlags = ['-noappend', '-quiet', '-no-progress', '-comp', 'zstd', '-b', '131072'] as const;
export const unpackFlags = ['-quiet', '-no-progress'] as const;
