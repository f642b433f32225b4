/**
 * The settings with which Squash itself packs and unpacks, for the bare tools beside it: snapshots as
 * `native/launch/image.c` makes them (fast compression: a sandbox stands still meanwhile), layers as `images/` does.
 */
export const packFlags = [
  '-comp',
  'zstd',
  '-Xcompression-level',
  '3',
  '-b',
  '131072',
  '-xattrs',
  '-noappend',
  '-no-recovery',
  '-no-progress',
  '-quiet',
  '-mem',
  '256M',
] as const;
export const unpackFlags = ['-no-progress', '-quiet', '-xattrs', '-da', '64', '-fr', '64'] as const;
export const layerPackFlags = [
  '-noappend',
  '-quiet',
  '-no-progress',
  '-comp',
  'zstd',
  '-b',
  '131072',
] as const;
