/*
 * File operations, run in a worker's process: they read `request`, do the work with blocking calls, and answer on
 * the socket. Paths are bytes and mean what they mean to any process in the sandbox: symlinks are followed as the
 * kernel does, because there is no boundary between this process and the files it touches.
 */
#ifndef SQUASH_INIT_FILE_H
#define SQUASH_INIT_FILE_H
#include <stdbool.h>
#include <sys/stat.h>

#include "common/frame.h"

/* answer.c. A peer that is gone is noticed by PID 1, which kills the worker: results of sending are not checked. */
void answer_error(int socket, int number, const char *what);
void answer_bad_request(int socket, const char *what);
void answer_ok(int socket);
void answer_end(int socket);
/* One `entry` with what stat says, sent with the next ones or the end. `name` may be NULL; `target` is a symlink's text. */
void answer_entry(int socket, const char *name, const struct stat *stat, const char *target);
void answer_writer(int socket, struct frame_writer *writer);
void answer_finish(int socket);

void file_read(int socket);
void file_write(int socket);
void file_stat(int socket);
void file_list(int socket);
void file_make_directory(int socket);
void file_move(int socket);
void file_remove(int socket);
void file_watch(int socket);

/* Makes the directories above `path` that are missing. Returns 0 or -1 with errno. */
int make_parents(const char *path);

#endif
