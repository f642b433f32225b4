/*
 * Pipes of commands that have ended while a background child still holds the other end: read to nowhere, so that
 * `server &` does not die of SIGPIPE and does not block on a full pipe.
 */
#ifndef SQUASH_INIT_DRAIN_H
#define SQUASH_INIT_DRAIN_H

/* Takes the descriptor. Past GUEST_DRAINED_PIPES_MAX the one adopted first is closed. */
void drain_adopt(int fd);

#endif
