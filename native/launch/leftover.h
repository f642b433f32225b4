/*
 * What a launcher that was killed left behind: sandboxes that live on without anybody to reap or list them.
 *
 * Each running sandbox has a record `g/<instance>.pid` with its first process's id, start time and pid namespace.
 * The next `enter`, still outside and with rights over the old namespaces, ends what the records name; the engine
 * then starts those sandboxes again on their uppers. Adopting them is not possible: the new daemon's user
 * namespace is another one, and nobody in it has rights over the old one's children.
 */
#ifndef SQUASH_LAUNCH_LEFTOVER_H
#define SQUASH_LAUNCH_LEFTOVER_H
#include <stdint.h>
#include <sys/types.h>

#include "common/fault.h"

int leftover_end(int run_directory, const char *data, struct fault *fault);
/* Written by the launcher as soon as the process is known, removed when it is gone. */
int leftover_record(int sockets_directory, uint64_t instance, pid_t pid);
void leftover_forget(int sockets_directory, uint64_t instance);

#endif
