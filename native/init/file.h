/*
 * File operations, run in a worker's process: they read `request`, do the work with blocking calls, and answer on
 * the socket. Paths are bytes and mean what they mean to any process in the sandbox: symlinks are followed as the
 * kernel does, because there is no boundary between this process and the files it touches.
 */
#ifndef SQUASH_INIT_FILE_H
#define SQUASH_INIT_FILE_H
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "common/frame.h"

/* answer.c. A peer that is gone is noticed by PID 1, which kills the worker: results of sending are not checked. */
void answer_error(int socket, int number, const char *what);
void answer_bad_request(int socket, const char *what);
void answer_ok(int socket);
void answer_end(int socket);
/* One `entry` with what stat says, sent with the next ones or the end. `name` may be NULL; `target` is a symlink's text. */
void answer_entry(int socket, const char *name, const struct stat *stat, const char *target);
/* The end of entries; `is_truncated` where a bound of the request left some out. */
void answer_end_of_list(int socket, bool is_truncated);
/* For work that may find nothing to tell for long: now and then says that it goes on. */
void answer_progress(int socket);
/* One `data` frame. Does not return where the peer is gone: what is read for it is then for nobody. */
void answer_data(int socket, const uint8_t *bytes, size_t length);
void answer_writer(int socket, struct frame_writer *writer);
void answer_finish(int socket);

void file_read(int socket);
void file_write(int socket);
void file_stat(int socket);
void file_list(int socket);
void file_make_directory(int socket);
void file_move(int socket);
void file_copy(int socket);
void file_attributes(int socket);
void file_link(int socket);
void file_remove(int socket);
void file_search(int socket);
void file_archive(int socket);
void file_extract(int socket);
void file_sync(int socket);
void file_upper(int socket);

/* When the inode last changed, in microseconds, as a field holds it. */
uint64_t file_changed_us(const struct stat *stat);

/* Opens a regular file. Others are refused with EISDIR or EINVAL, and a FIFO holds nobody. Returns -1 with errno. */
int file_open(int directory, const char *path, int flags, mode_t mode);
/* Returns 0 or -1 with errno. */
int file_put(int fd, const uint8_t *bytes, size_t length);
/* The next bytes of an upload into `scratch`: their number, 0 at its end, -1 after an answer or where the peer is gone. */
ssize_t file_receive(int socket);

/* Whom what is made shall belong to; -1: whoever makes it. */
struct owner {
  uid_t uid;
  gid_t gid;
};
/* From the request. False where it is out of range. */
bool owner_of_request(struct owner *owner);
/* A symlink's text, or NULL for everything else. Good until the next call. */
const char *link_target(int directory, const char *name, const struct stat *stat);
/* Sets mode and owner of what `fd` (also O_PATH) is open on. `mode` -1: as it is. Returns 0 or -1 with errno. */
int set_attributes(int fd, int64_t mode, const struct owner *owner);
/* Makes the directories above `path` that are missing. Returns 0 or -1 with errno. */
int make_parents(const char *path, const struct owner *owner);
/* The parent directory of an absolute path, held open, and the last part in `name`; "." for the root. -1 with errno. */
int open_parent_of(const char *path, char name[NAME_MAX + 1]);

#endif
