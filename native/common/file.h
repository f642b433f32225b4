/*
 * Small whole files (procfs, cgroupfs, /etc) and paths below a directory.
 *
 * `path_is_relative` is the edge for every path in a request: what it passes has no `..`, no empty part and no
 * leading slash. `open_beneath` then also refuses symbolic links, because a sandbox decides what lies in its upper.
 */
#ifndef SQUASH_COMMON_FILE_H
#define SQUASH_COMMON_FILE_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Longest path in a request: `sandboxes/<64>/snapshots/<128>.squashfs` needs 230. */
enum { REQUEST_PATH_BYTES_MAX = 512 };

bool path_is_relative(const char *path);
int open_beneath(int directory, const char *path, int flags);
/* As above, and nothing that another mount covers or holds. */
int open_inside(int directory, const char *path, int flags);
/* Makes missing directories of `path` (0700, ours); with `for_parent` all but the last part. Nothing is made behind a link. */
int make_directories(int directory, const char *path, bool for_parent);
/* Splits a checked relative path: opens its parent, points `name` at its last part. */
int open_parent(int directory, const char *path, const char **name);

/* Reads at most `size - 1` bytes and ends them with 0. Returns the count or -1. */
ssize_t text_file_read(int directory, const char *path, char *buffer, size_t size);
/* Writes in one call, as procfs and cgroupfs need it. Returns 0 or -1. */
int text_file_write(int directory, const char *path, const char *text);
int text_file_write_format(int directory, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The number behind `key ` in a file of `key number` lines; -1 where it is missing. */
long long text_file_keyed_number(int directory, const char *path, const char *key);

/* What stands between the ids of names in messages: `/proc/self/fd/N`. */
struct fd_path {
  char text[64];
};
struct fd_path fd_path(int fd, const char *below);

#endif
