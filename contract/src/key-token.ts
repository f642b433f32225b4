/** The one form that a key's token has. Apart from the shapes, because the command line reads it and loads no schemas. */

/** Makes a token known for what it is, to its reader and to programs that look for keys that got out. */
export const keyPrefix = 'sqk_';
/** Anywhere in a text: the prefix and 20 random bytes, which is 160 bits. */
export const keyTokenPattern = /sqk_[0-9a-f]{40}/i;
