/*
 * Who the launcher of a data directory is, written by root where the daemon's id can't write: `/run/squash-launch/<group>`,
 * its process id and start. What lies in the run directory names whoever the daemon wants; a new privileged helper goes to
 * nobody but the process that is named here. Without a /run of root's there is no record, and no helper is handed over.
 */
#ifndef SQUASH_LAUNCH_LAUNCHER_RECORD_H
#define SQUASH_LAUNCH_LAUNCHER_RECORD_H
#include <stdbool.h>
#include <sys/types.h>

/* `name` is that of the data directory's control group. Each does nothing where the caller is not root. */
void launcher_record_write(const char *name, pid_t pid);
void launcher_record_forget(const char *name);
bool launcher_record_exists(const char *name);
/* 0 where it names nobody who lives. */
pid_t launcher_record_read(const char *name);
/* Pin the process first, so that the one that is compared is the one that stays. */
bool launcher_record_names(const char *name, pid_t pid);

#endif
