/*
 * A walk through a tree: each entry before what is below it, in the order of the names' bytes, so that a list can go on behind
 * any entry. Symlinks are never followed and other file systems never entered (/proc has no end).
 *
 * A directory's names are read whole before the first is visited: what the visitor or anybody else changes meanwhile shifts
 * nothing. Few directories stay open; a higher one is opened again by its path from the root, and must be the one that was left.
 */
#ifndef SQUASH_INIT_WALK_H
#define SQUASH_INIT_WALK_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "common/frame.h"

struct walk_entry {
  const char *path; /* relative to the root */
  const char *name; /* the last part of it, in `directory` */
  int directory;
  unsigned depth; /* 1: stands in the root */
  struct stat stat;
};

struct walk_visitor {
  void *owner;
  /* False ends the walk. */
  bool (*visit)(void *owner, const struct walk_entry *entry);
  /* Whether to go into this directory. NULL: yes. */
  bool (*enters)(void *owner, const struct walk_entry *entry);
  /* Behind everything in a directory. False ends the walk. May be NULL. */
  bool (*leave)(void *owner, const struct walk_entry *entry);
  unsigned depth_max;
  /* What can't be entered, or has a longer path than can be named, ends the walk; else it is left out. */
  bool is_strict;
  /* Entries up to this path are passed over. NULL: none. */
  const char *after;
};

/* Returns 0, also where the visitor ended it, or -1 with errno. `root` stays the caller's. Not reentrant. */
int walk_tree(int root, const struct walk_visitor *visitor);

/* Opens what `path` names below `root`, without leaving it. `resolve` adds to RESOLVE_BENEATH. Returns -1 with errno. */
int open_below(int root, const char *path, int flags, unsigned long long resolve);

#endif
