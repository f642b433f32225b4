/*
 * What a box has written below one of its places, looked at name by name. It is the box's word and may change meanwhile: no link is
 * followed, and nothing is opened but directories and regular files.
 */
#ifndef SQUASH_LAUNCH_BOX_TREE_H
#define SQUASH_LAUNCH_BOX_TREE_H
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* GONE: the box has removed it, or a directory that hides the host's has no such name. NOTHING: it has left the name alone. */
enum own_kind { OWN_NOTHING, OWN_GONE, OWN_FILE, OWN_DIRECTORY, OWN_LINK, OWN_OTHER };

struct own {
  enum own_kind kind;
  struct stat status;
};

int box_look(int from, const char *path, struct own *own);

/* A regular file, for reading. */
int box_open_file(int from, const char *path);

/*
 * The file's bytes, as long as it is now: holes stay holes, and what it grows by meanwhile is not taken. Fails with EBUSY where it is
 * written meanwhile, with EFBIG where it is next to nothing but holes.
 */
int box_copy_file(int from, int to);

/*
 * A link of the box is a path that the host's programs will follow. Its `..` come first: behind a name they would lead out of where
 * another link leads to. `to`: the host's directory, whose own links may lead anywhere.
 */
bool box_link_leads_out(int to, const char *path, const char *text);

#endif
