/*
 * /dev of a sandbox: six device nodes, terminals of its own and shared memory, below the start's working directory.
 *
 * A node of the host is the host's inode: whoever has it sees by inotify when others read and write it, and its locks
 * are a channel between all who have it. So where the privileged helper is, it makes nodes for each sandbox. Nobody else
 * may make nodes that can be opened: without it the host's are attached.
 */
#ifndef SQUASH_LAUNCH_DEVICES_H
#define SQUASH_LAUNCH_DEVICES_H
#include <stdint.h>

#include "common/fault.h"
#include "launch/launcher.h"

/* First step, with the launcher's rights: the helper's nodes as a mount that is nowhere yet, -1 without it. `root_id` is the
   sandbox's root in the daemon's namespace. */
int devices_gather(const struct launcher *launcher, unsigned root_id, int *nodes, struct fault *fault);
/* Second step, as the sandbox's root, with those attached at `path`: the rest but what is shared there. */
int devices_furnish(const struct launcher *launcher, const char *path, struct fault *fault);
/* /dev/shm, of a size that the request has. */
int devices_share_memory(const char *path, uint64_t bytes_max, struct fault *fault);

#endif
