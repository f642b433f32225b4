/* Stat, list and move: operations on names. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "init/file.h"
#include "init/glob.h"
#include "init/request.h"
#include "init/walk.h"

enum { NO_REPLACE = 1 }; /* RENAME_NOREPLACE; musl has neither name nor function. */

const char *link_target(int directory, const char *name, const struct stat *stat) {
  static char target[GUEST_PATH_BYTES_MAX];
  if (!S_ISLNK(stat->st_mode)) return NULL;
  ssize_t length = readlinkat(directory, name, target, sizeof target - 1);
  if (length < 0) return NULL;
  target[length] = '\0';
  return target;
}

void file_stat(int socket) {
  uint64_t follow = 0;
  if (!request_integer(FIELD_FOLLOW_LINKS, 0, 1, &follow)) {
    answer_bad_request(socket, "followLinks is out of range");
    return;
  }
  const char *path = request_path(FIELD_PATH);
  struct stat stat;
  if (fstatat(AT_FDCWD, path, &stat, follow == 1 ? 0 : AT_SYMLINK_NOFOLLOW) != 0) {
    answer_error(socket, errno, "stat");
    return;
  }
  answer_entry(socket, NULL, &stat, link_target(AT_FDCWD, path, &stat));
}

struct listing {
  int socket;
  uint64_t left;
  bool is_truncated;
  bool has_pattern;
  struct glob pattern;
  /* Of each directory on the way down: which beginnings of the pattern its path matches. */
  uint64_t states[GUEST_WALK_DEPTH_MAX + 2];
};

/* Of the entry; kept for what is below it. */
static uint64_t states_of(struct listing *listing, const struct walk_entry *entry) {
  uint64_t states = glob_step(&listing->pattern, listing->states[entry->depth - 1], entry->name);
  listing->states[entry->depth] = states;
  return states;
}

static bool list_entry(void *owner, const struct walk_entry *entry) {
  struct listing *listing = owner;
  answer_progress(listing->socket);
  if (listing->has_pattern && !glob_is_matched(&listing->pattern, states_of(listing, entry))) return true;
  listing->is_truncated = listing->left == 0;
  if (listing->is_truncated) return false;
  listing->left--;
  answer_entry(listing->socket, entry->path, &entry->stat, link_target(entry->directory, entry->name, &entry->stat));
  return true;
}

static bool list_enters(void *owner, const struct walk_entry *entry) {
  struct listing *listing = owner;
  return !listing->has_pattern || glob_goes_on(&listing->pattern, states_of(listing, entry));
}

void file_list(int socket) {
  static struct listing listing;
  uint64_t depth = 1;
  listing.socket = socket;
  listing.left = INTEGER_MAX;
  (void)request_integer(FIELD_ENTRIES_MAX, 0, INTEGER_MAX, &listing.left); /* Every integer is in range. */
  const char *pattern = request_text(FIELD_PATTERN);
  listing.has_pattern = pattern != NULL;
  if (!request_integer(FIELD_DEPTH, 1, GUEST_WALK_DEPTH_MAX, &depth)) {
    answer_bad_request(socket, "the depth is out of range");
    return;
  }
  if (pattern != NULL && !glob_parse(&listing.pattern, pattern)) {
    answer_bad_request(socket, GLOB_WRONG);
    return;
  }
  if (pattern != NULL) listing.states[0] = glob_start(&listing.pattern);
  struct walk_visitor visitor = {.owner = &listing, .visit = list_entry, .enters = list_enters,
                                 .depth_max = (unsigned)depth, .after = request_text(FIELD_AFTER)};
  cleanup_fd root = open(request_path(FIELD_PATH), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) answer_error(socket, errno, "open");
  else if (walk_tree(root, &visitor) != 0) answer_error(socket, errno, "list");
  else answer_end_of_list(socket, listing.is_truncated);
}

/* Replaces what stands at the target, as rename does, unless it is to be new. Across file systems, and for a directory of a
 * lower layer, the kernel says EXDEV: whether to copy is left to who asks, who can see and stop it. */
void file_move(int socket) {
  const char *target = request_path(FIELD_TARGET);
  uint64_t create_parents = 0, exclusive = 0;
  struct owner nobody = {(uid_t)-1, (gid_t)-1};
  if (target == NULL || !request_integer(FIELD_CREATE_PARENTS, 0, 1, &create_parents) ||
      !request_integer(FIELD_EXCLUSIVE, 0, 1, &exclusive)) {
    answer_bad_request(socket, "the target is not an absolute path, or a field is out of range");
  } else if (create_parents == 1 && make_parents(target, &nobody) != 0) {
    answer_error(socket, errno, "parent directories");
  } else if (syscall(SYS_renameat2, AT_FDCWD, request_path(FIELD_PATH), AT_FDCWD, target, exclusive == 1 ? NO_REPLACE : 0) != 0) {
    answer_error(socket, errno, "move");
  } else {
    answer_ok(socket);
  }
}
