/*
 * Watches: one child of PID 1 serves all of a sandbox, with one inotify instance. A process and an instance for each would end at
 * some dozen: the kernel gives a user 128 instances, and a sandbox has so many processes.
 *
 * A watch begins as a file operation of its own, whose worker opens what is to be watched as the user that asks, hands that
 * and the connection over to the watcher, and ends. Nobody who watches is waited for: what a client does not take is dropped,
 * and it is told so with the change "overflow". The watcher ends when nothing has been watched for a while.
 */
#ifndef SQUASH_INIT_WATCHER_H
#define SQUASH_INIT_WATCHER_H
#include <stdbool.h>
#include <sys/types.h>

/* PID 1: a watcher that takes watches. Returns its channel, which stays PID 1's, or -1 with errno. */
int watcher_channel(void);
/* Worker: hands the request on `socket` over and ends the process, or answers why not. `channel` as above. */
void file_watch(int socket, int channel);

#endif
