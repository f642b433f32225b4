/*
 * Differences of layers: see difference.h.
 *
 * `lower` are the layers of one side and `against` those of the other, which is the older; an upper lies on top of the
 * first. A page ends after so many entries or some seconds, whatever the trees are, and says behind which path the next begins.
 */
#include "launch/difference.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/clock.h"
#include "common/file.h"
#include "launch/place_trees.h"
#include "launch/sandbox.h"
#include "tree/tree.h"
#include "launch/upper.h"

/* Long enough for some hundred thousand names; a client waits for each page. */
enum { PAGE_MS_MAX = 5000, ENTRY_BYTES_MAX = PATH_MAX + 256 };

struct page {
  int client;
  uint64_t left;
  int64_t until_ms;
};

static uint64_t type_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG: return FILE_TYPE_FILE;
    case S_IFDIR: return FILE_TYPE_DIRECTORY;
    case S_IFLNK: return FILE_TYPE_SYMLINK;
    case S_IFIFO: return FILE_TYPE_FIFO;
    case S_IFSOCK: return FILE_TYPE_SOCKET;
    default: return FILE_TYPE_DEVICE;
  }
}

/* A hole may be longer than a frame's integer says. */
static uint64_t size_of(const struct stat *status) {
  if (S_ISDIR(status->st_mode) || status->st_size < 0) return 0;
  return (uint64_t)status->st_size > INTEGER_MAX ? INTEGER_MAX : (uint64_t)status->st_size;
}

static int send_entry(void *context, const struct tree_difference *found) {
  static const char *const changes[] = {[TREE_ADDED] = "added", [TREE_CHANGED] = "changed", [TREE_REMOVED] = "removed"};
  static uint8_t buffer[ENTRY_BYTES_MAX];
  struct page *page = context;
  struct frame_writer writer = frame_writer_on(buffer, sizeof buffer);
  frame_begin(&writer, FRAME_ENTRY);
  frame_text(&writer, FIELD_PATH, found->path);
  frame_text(&writer, FIELD_CHANGE, changes[found->change]);
  frame_integer(&writer, FIELD_FILE_TYPE, type_of(found->status->st_mode));
  frame_integer(&writer, FIELD_MODE, found->status->st_mode & 07777);
  frame_integer(&writer, FIELD_SIZE, size_of(found->status));
  size_t length = frame_finish(&writer);
  page->left--;
  errno = EMSGSIZE;
  return length > 0 && write_whole(page->client, buffer, length) == 0 ? 0 : -1;
}

static bool goes_on(void *context) {
  const struct page *page = context;
  struct pollfd end = {.fd = page->client, .events = POLLRDHUP};
  return page->left > 0 && now_ms() < page->until_ms && poll(&end, 1, 0) == 0;
}

static int add_layer(const struct launcher *launcher, struct tree_diff *diff, const char *const *paths, size_t at,
                     struct fault *fault) {
  errno = 0;
  if (diff->count == TREE_DIFF_LAYERS_MAX) return fault_set(fault, "launch_failed", "too many layers");
  int root = open_beneath(launcher->data_fd, paths[at], O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (root < 0) return fault_set(fault, "layer_corrupt", "can't open \"%s\"", paths[at]);
  diff->roots[diff->count++] = root;
  return 0;
}

/* `names` has the path of each layer that is in the table. */
static int add_side(const struct launcher *launcher, struct tree_diff *diff, struct tree_side *side,
                    const char *const *paths, size_t count, const char *names[TREE_DIFF_LAYERS_MAX],
                    struct fault *fault) {
  for (size_t i = 0; i < count; i++) {
    size_t place = 0;
    while (place < diff->count && (names[place] == NULL || strcmp(names[place], paths[i]) != 0)) place++;
    if (place == diff->count) {
      if (add_layer(launcher, diff, paths, i, fault) != 0) return -1;
      names[place] = paths[i];
    }
    if (side->count == TREE_DIFF_LAYERS_MAX) return fault_set(fault, "launch_failed", "too many layers");
    side->layers[side->count++] = (unsigned char)place;
  }
  return 0;
}

/* Image uppers by a mount of their own, whose ids are the layers'. */
static int add_upper(const struct launcher *launcher, const struct request *request, struct tree_diff *diff,
                     struct fault *fault) {
  cleanup_fd upper = request->upper_kind == UPPER_IMAGE ? upper_mount_again(launcher, request->upper, fault)
                                                        : upper_open(launcher, request, fault);
  if (upper < 0) return -1;
  int data = openat(upper, "data", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (data < 0) return fault_set(fault, "launch_failed", "the upper has no data directory");
  diff->foreign = launcher->overlays_by_fuse ? 1 : 0;
  diff->to.layers[diff->to.count++] = (unsigned char)diff->count;
  diff->roots[diff->count++] = data;
  return 0;
}

/* What a box shows at a place: its own names of there, on the host's directory. */
static int add_place(const struct launcher *launcher, const struct request *request, struct tree_diff *diff,
                     struct fault *fault) {
  const struct mount_wish *wish = &request->mounts[0];
  cleanup_fd place = places_open(launcher, wish, fault);
  cleanup_fd upper = place < 0 ? -1 : upper_open(launcher, request, fault);
  if (upper < 0) return -1;
  cleanup_fd data = open_beneath(upper, "data", O_PATH | O_DIRECTORY);
  int host = openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (host < 0) return fault_set(fault, "host_path_refused", "can't read \"/%s\" of the host", wish->source);
  /* Where a box has made something else of the way to it there is nothing that was written over the host's. */
  int own = data < 0 ? -1 : open_beneath(data, wish->target, O_RDONLY | O_DIRECTORY);
  if (own >= 0) diff->to.layers[diff->to.count++] = (unsigned char)diff->count, diff->roots[diff->count++] = own;
  diff->to.layers[diff->to.count++] = (unsigned char)diff->count;
  diff->from.layers[diff->from.count++] = (unsigned char)diff->count;
  diff->roots[diff->count++] = host;
  return 0;
}

int difference_send(const struct launcher *launcher, const struct request *request, struct frame_writer *answer,
                    struct fault *fault) {
  struct page page = {.client = request->client, .left = request->inodes_max, .until_ms = now_ms() + PAGE_MS_MAX};
  struct tree_diff diff = {.after = request->after, .report = send_entry, .goes_on = goes_on, .context = &page};
  const char *names[TREE_DIFF_LAYERS_MAX] = {NULL};
  char last[PATH_MAX];
  bool is_box = request->mount_count > 0;
  diff.skips_long = is_box;
  int result = is_box                  ? add_place(launcher, request, &diff, fault)
               : request->upper == NULL ? 0
                                        : add_upper(launcher, request, &diff, fault);
  if (result == 0) {
    result = add_side(launcher, &diff, &diff.to, request->lowers, request->lower_count, names, fault);
  }
  if (result == 0) {
    result = add_side(launcher, &diff, &diff.from, request->against, request->against_count, names, fault);
  }
  if (result == 0) result = tree_diff(&diff, last, fault);
  for (size_t i = 0; i < diff.count; i++) close(diff.roots[i]);
  if (result == 0 && last[0] != '\0') frame_text(answer, FIELD_AFTER, last);
  return result;
}
