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

#include "launch/fault.h"
#include "launch/launcher.h"

/* First step, with the launcher's rights: attaches the helper's nodes at `path`, a new directory. Nothing without it. */
int devices_attach(const struct launcher *launcher, const char *path, struct fault *fault);
/* Second step, as the sandbox's root: the rest of the tree at `path`. `shm_bytes_max` is the size of /dev/shm. */
int devices_furnish(const struct launcher *launcher, const char *path, uint64_t shm_bytes_max, struct fault *fault);

#endif
