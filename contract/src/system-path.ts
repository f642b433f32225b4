/** Where programs of the system lie, for those that we start by name: a directory of the user's PATH may be the repository's that a box is to keep in. */
export const systemPath =
  '/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin:/run/wrappers/bin:/run/current-system/sw/bin';
