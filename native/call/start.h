/*
 * The daemon of boxes, started as the command line started it last, so that it begins before there is a command line.
 *
 * Its data directory has in `log/start.words` what that was: strings, each with its NUL, in parts that an empty string ends.
 *
 *   Node, the command line's program     as files, they are to be ours
 *   the environment that counts          `counts` of start.c; box/src/start-words.ts says the same
 *   sockets of daemons that have boxes   where one of them stands none is started
 *   sources that say what the words are  none of them is younger
 *   the daemon's words
 *   the daemon's environment
 *
 * It is a shortcut and no more. Whatever is not as it was there, nothing is started: the command line looks again, starts the daemon where
 * none is, and says what is wrong. Who could write the file could replace what it names: both are this user's.
 */
#ifndef SQUASH_START_H
#define SQUASH_START_H

/* In the data directory at `path`. Returns when it begins. Who waits for its lock (box/src/start-lock.ts) waits for its end, or its socket. */
void start_daemon(const char *path, const char *node, const char *program);

#endif
