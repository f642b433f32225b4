/*
 * Unix sockets by directory descriptor: the address is `/proc/self/fd/N/name`, so that the length of the data
 * directory's path does not matter (an address holds 107 bytes) and a sandbox that asks for the name of its
 * socket learns no path of the host.
 */
#ifndef SQUASH_LAUNCH_SOCKET_H
#define SQUASH_LAUNCH_SOCKET_H

/* Listens at `name` (mode 0600). A file of that name is replaced. Returns the descriptor or -1. */
int socket_listen_at(int directory, const char *name, int backlog, int type_flags);
int socket_connect_at(int directory, const char *name);
/* Nothing done on the socket waits longer than that, connecting included. */
int socket_connect_within(int directory, const char *name, int seconds);
/* Never waits: where the listener's queue is full that is EAGAIN. The socket stays non-blocking. */
int socket_connect_now(int directory, const char *name);

#endif
