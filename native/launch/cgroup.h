/*
 * Control groups behind one interface: version 1 (and hybrid), version 2, or none.
 *
 * `cgroup_prepare` runs outside with the rights of whoever started Squash: it finds or makes `squash-<hash>`, a
 * directory that belongs to the daemon's id, and keeps descriptors of it; the launcher works below those and needs
 * no path. The hash is of the data directory's path, so the next start finds what a dead launcher left.
 *
 * What a newcomer would get wrong: in version 1 nobody but root may move a process of another id, so a sandbox's
 * first process joins by itself while it still has the launcher's id. In version 2 a group with controllers for
 * its children can't hold processes, so the launcher stands in a leaf of its own.
 */
#ifndef SQUASH_LAUNCH_CGROUP_H
#define SQUASH_LAUNCH_CGROUP_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "launch/cgroup_setup.h"
#include "common/fault.h"

/* The group of the egress process, beside the sandboxes' whose names are `s` and a number. */
#define CGROUP_EGRESS "egress"

void cgroup_prepare(struct cgroup_setup *setup, const char *data);
/* What a living launcher's sandboxes stand in, as it is. */
void cgroup_find(struct cgroup_setup *setup, const char *data);
/* Version 2: the launcher's leaf, out of the service manager's group. `pid` 0 is the caller. */
void cgroup_place_launcher(const struct cgroup_setup *setup, pid_t pid);
/* Removes the data directory's group with all below it. Nothing runs there any more but the caller, which leaves. */
void cgroup_dissolve(const struct cgroup_setup *setup);
void cgroup_setup_close(struct cgroup_setup *setup);

int cgroup_create(const struct cgroup_setup *setup, const char *name, const struct cgroup_limits *limits,
                  struct fault *fault);
/* Other limits for a group whose processes run. */
int cgroup_limit(const struct cgroup_setup *setup, const char *name, const struct cgroup_limits *limits,
                 struct fault *fault);
/* Puts the calling process into the group. */
int cgroup_join(const struct cgroup_setup *setup, const char *name, struct fault *fault);
/* Puts another process of our own id into the group, with all its threads. */
int cgroup_place(const struct cgroup_setup *setup, const char *name, pid_t pid, struct fault *fault);
/* Returns when every process stands still (or runs again): 0, or -1 with ETIMEDOUT. */
int cgroup_freeze(const struct cgroup_setup *setup, const char *name, bool frozen);
int cgroup_usage(const struct cgroup_setup *setup, const char *name, struct cgroup_usage *usage);
/* Kills what is in the group, also processes that stand outside the sandbox's pid namespace. */
void cgroup_kill(const struct cgroup_setup *setup, const char *name);
/* Returns 0 when the group is gone everywhere, -1 while processes of it are still being reaped. */
int cgroup_remove(const struct cgroup_setup *setup, const char *name);

/* The name of a data directory's group. */
void cgroup_base_name(const char *data, char *name, size_t size);

#endif
