/* What differs from an index: see change.h. */
#include "tree/change.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/file.h"
#include "tree/tree.h"

enum {
  /* Two ticks of the slowest clock that kernels are built with, 100 Hz. */
  RACY_NS = 20 * 1000 * 1000,
  XATTR_BYTES_MAX = 65536,
};

static bool is_below(const char *directory, const char *path) {
  size_t length = strlen(directory);
  return length > 0 && strncmp(directory, path, length) == 0 && path[length] == '/';
}

static bool is_deletion(const struct stat *status) { return S_ISCHR(status->st_mode) && status->st_rdev == 0; }

static void next_record(struct tree_judge *judge) {
  enum tree_index_step step = tree_index_next(&judge->known, &judge->record);
  judge->has_record = step == TREE_INDEX_RECORD;
  judge->is_unfit |= step == TREE_INDEX_DAMAGED;
}

/* Names of the index before this path: they are there no more. NULL: all that are left. */
static int take_gone(struct tree_judge *judge, const char *until) {
  while (judge->has_record && (until == NULL || tree_compare_paths(judge->record.path, until) < 0)) {
    const struct tree_record *record = &judge->record;
    if (!is_below(judge->skipped, record->path)) {
      /* The overlay takes no deletion back. */
      if (record->is_deletion) judge->is_unfit = true;
      else if (judge->gone(judge->context, record->path) != 0) return -1;
      if (S_ISDIR(record->mode)) memcpy(judge->skipped, record->path, strlen(record->path) + 1);
    }
    next_record(judge);
  }
  return 0;
}

static bool is_racy(const struct tree_judge *judge, const struct stat *status) {
  const struct timespec *began = &judge->known.began;
  /* Some file systems keep whole seconds: then the one before may still go on. */
  if (status->st_ctim.tv_nsec == 0 && status->st_ctim.tv_sec >= began->tv_sec - 1) return true;
  int64_t limit_s = began->tv_sec - (began->tv_nsec < RACY_NS);
  int64_t limit_ns = began->tv_nsec - RACY_NS + (began->tv_nsec < RACY_NS ? 1000000000 : 0);
  return status->st_ctim.tv_sec > limit_s || (status->st_ctim.tv_sec == limit_s && status->st_ctim.tv_nsec >= limit_ns);
}

static bool is_as_known(const struct tree_judge *judge, const struct stat *status) {
  const struct tree_record *record = &judge->record;
  return record->inode == status->st_ino && record->mode == status->st_mode &&
         (S_ISDIR(status->st_mode) || record->size == (uint64_t)status->st_size) &&
         record->changed_s == status->st_ctim.tv_sec && record->changed_ns == (uint32_t)status->st_ctim.tv_nsec &&
         !is_racy(judge, status);
}

static int read_opaque(const struct tree_place *place, bool *is_opaque) {
  cleanup_fd directory = openat(place->directory, place->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (directory < 0) return -1;
  *is_opaque = tree_is_opaque(directory);
  return 0;
}

static enum tree_verdict judge_directory(struct tree_judge *judge, const char *path, bool was_opaque, bool is_opaque) {
  bool was_directory = S_ISDIR(judge->record.mode);
  if (was_directory && was_opaque == is_opaque) return TREE_DIFFERS;
  if (was_directory && was_opaque) judge->is_unfit = true;
  memcpy(judge->all, path, strlen(path) + 1);
  memcpy(judge->skipped, path, strlen(path) + 1);
  return TREE_ALL;
}

static enum tree_verdict judge_known(struct tree_judge *judge, const struct tree_place *place, bool is_opaque) {
  const struct stat *status = &place->status;
  bool is_same = is_as_known(judge, status);
  if (S_ISDIR(status->st_mode)) {
    return is_same ? TREE_SAME : judge_directory(judge, place->path, judge->record.is_opaque, is_opaque);
  }
  if (S_ISDIR(judge->record.mode)) memcpy(judge->skipped, place->path, strlen(place->path) + 1);
  /* All deletions are names of one device, whose time is of the last one. */
  if (is_deletion(status)) return judge->record.is_deletion ? TREE_SAME : TREE_DIFFERS;
  bool has_others = status->st_nlink > 1;
  return is_same && !(has_others && tar_links_has(judge->links, status)) ? TREE_SAME : TREE_DIFFERS;
}

int tree_judge(struct tree_judge *judge, const struct tree_place *place, bool *is_opaque) {
  *is_opaque = false;
  if (!judge->is_begun && judge->known.file != NULL) next_record(judge);
  judge->is_begun = true;
  if (take_gone(judge, place->path) != 0) return -1;
  bool is_known = judge->has_record && strcmp(judge->record.path, place->path) == 0;
  bool is_directory = S_ISDIR(place->status.st_mode);
  if (is_directory && is_known && is_as_known(judge, &place->status)) *is_opaque = judge->record.is_opaque;
  else if (is_directory && read_opaque(place, is_opaque) != 0) return -1;
  enum tree_verdict verdict = TREE_ALL;
  if (is_below(judge->all, place->path)) verdict = TREE_ALL;
  else if (is_known) verdict = judge_known(judge, place, *is_opaque);
  else if (is_directory) memcpy(judge->all, place->path, strlen(place->path) + 1);
  else verdict = TREE_DIFFERS;
  if (is_known) next_record(judge);
  return (int)verdict;
}

int tree_judge_rest(struct tree_judge *judge) { return take_gone(judge, NULL); }

/* ---- comparing ---- */

struct comparing {
  struct tree_comparison *comparison;
  struct tree_judge judge;
  struct tree_order order;
  struct tree_index written;
  struct tree_record record;
  uint64_t all_bytes;
  uint64_t changed_bytes;
};

static int ignore_gone(void *context, const char *path) {
  (void)context;
  (void)path;
  return 0;
}

/* The root of an image that is made of a tar is root's, and has no attributes. */
static bool is_plain_root(const struct comparing *comparing, const struct tree_place *place) {
  static char names[XATTR_BYTES_MAX];
  if (place->status.st_uid != comparing->comparison->id_first || place->status.st_gid != comparing->comparison->id_first) {
    return false;
  }
  ssize_t size = flistxattr(place->directory, names, sizeof names);
  for (const char *name = names; size > 0 && name < names + size; name += strlen(name) + 1) {
    if (strncmp(name, "user.", 5) == 0 && strncmp(name, "user.overlay.", 13) != 0) return false;
  }
  return size >= 0 || errno == ENOTSUP;
}

static void write_record(struct comparing *comparing, const struct tree_place *place, bool is_opaque) {
  const struct stat *status = &place->status;
  struct tree_record *record = &comparing->record;
  record->inode = status->st_ino;
  record->size = (uint64_t)status->st_size;
  record->changed_s = status->st_ctim.tv_sec;
  record->changed_ns = (uint32_t)status->st_ctim.tv_nsec;
  record->mode = status->st_mode;
  record->is_deletion = is_deletion(status);
  record->is_opaque = is_opaque;
  memcpy(record->path, place->path, strlen(place->path) + 1);
  if (!tree_index_add(&comparing->written, record)) tree_index_close(&comparing->written);
}

static int compare(void *context, const struct tree_place *place) {
  struct comparing *comparing = context;
  struct tree_judge *judge = &comparing->judge;
  const struct stat *status = &place->status;
  bool is_opaque;
  int verdict = tree_judge(judge, place, &is_opaque);
  if (verdict < 0) return -1;
  if (comparing->written.file != NULL) write_record(comparing, place, is_opaque);
  if (place->path[0] == '\0') {
    comparing->comparison->status = *status;
    judge->is_unfit |= !is_plain_root(comparing, place);
  }
  uint64_t bytes = S_ISREG(status->st_mode) ? (uint64_t)status->st_size : 0;
  comparing->all_bytes += bytes;
  if (verdict == TREE_SAME) return 0;
  comparing->changed_bytes += bytes;
  if (S_ISSOCK(status->st_mode)) judge->is_unfit = true; /* No tar has them, images do. */
  bool has_others = status->st_nlink > 1 && !S_ISDIR(status->st_mode) && !is_deletion(status);
  const char *first;
  return has_others ? tar_links_find(judge->links, status, "", &first) : 0;
}

int tree_compare(struct tree_comparison *comparison) {
  struct stat status;
  struct comparing comparing = {.comparison = comparison, .judge = {.gone = ignore_gone}};
  /* While names are told apart no link is known yet: all names of a file that changed say so by themselves. */
  struct tar_links changed = {0};
  comparing.judge.links = &changed;
  comparing.order = (struct tree_order){.root = comparison->root, .visit = compare, .context = &comparing};
  comparison->links = (struct tar_links){0};
  int result = fstat(comparison->root, &status);
  bool has_known = result == 0 && comparison->known >= 0 &&
                   tree_index_open(&comparing.judge.known, take_fd(&comparison->known), status.st_dev);
  if (result == 0 && comparison->written >= 0) {
    (void)tree_index_create(&comparing.written, take_fd(&comparison->written), status.st_dev);
  }
  if (result == 0) result = tree_in_order(&comparing.order);
  if (result == 0) result = tree_judge_rest(&comparing.judge);
  int number = errno;
  comparison->is_written = comparing.written.file != NULL && tree_index_finish(&comparing.written) && result == 0 &&
                           comparing.order.missed == 0;
  comparison->fits = result == 0 && has_known && !comparing.judge.is_unfit && comparing.order.missed == 0 &&
                     comparing.changed_bytes <= comparing.all_bytes / 2;
  comparison->links = changed;
  tree_index_close(&comparing.judge.known);
  close_fd(&comparison->known);
  close_fd(&comparison->written);
  errno = number;
  return result;
}
