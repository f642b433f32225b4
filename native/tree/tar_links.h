/* Which files of a tar have been told under another name: by device and inode, each with its first path. */
#ifndef SQUASH_TREE_TAR_LINKS_H
#define SQUASH_TREE_TAR_LINKS_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct tar_link;

/* Begins as zeros. */
struct tar_links {
  struct tar_link **places; /* chains */
  size_t room;
  size_t count;
  size_t bytes;
};

/* `first` becomes the path under which the file was found before, or "" the first time. Returns 0, or -1 with ENOMEM. */
int tar_links_find(struct tar_links *links, const struct stat *status, const char *path, const char **first);
bool tar_links_has(const struct tar_links *links, const struct stat *status);
/* The file was not told after all: the next of its names is to be. */
void tar_links_forget(struct tar_links *links, const struct stat *status);
void tar_links_free(struct tar_links *links);

#endif
