/*
 * Starts one command: pipes or terminal, fork, and in the child everything up to execve.
 *
 * A child that is a copy of PID 1 reports a failure through `status`, a close-on-exec pipe: bytes on it are a
 * `spawn_failure`, its end without bytes is the proof that execve took place. One of the fork thread has no such pipe:
 * the thread tells when it is over, and what has failed lies in PID 1's memory. So a command that can't be started
 * never looks like one that exited with some code.
 */
#ifndef SQUASH_INIT_SPAWN_H
#define SQUASH_INIT_SPAWN_H
#include <stdint.h>
#include <sys/types.h>

#include "init/request.h"

struct spawned {
  pid_t pid;
  int status; /* all descriptors are non-blocking and close-on-exec; -1 where there is none: the fork thread tells */
  int input;
  int output;
  int error;
};

struct spawn_failure {
  int32_t number; /* errno */
  int32_t step;   /* enum spawn_step */
};

/* `null_fd` is /dev/null, opened once before any command could have replaced it. Returns 0 or an errno. */
int spawn(const struct exec_request *spec, int null_fd, struct spawned *out);
const char *spawn_step_text(int32_t step);
/* Of the last child of the fork thread, once the thread is free or the child has ended. NULL: it was started. */
const struct spawn_failure *spawn_thread_failure(void);

/* Becomes uid and gid without supplementary groups. Returns 0 or -1 with errno. */
int become(uid_t uid, gid_t gid);

#endif
