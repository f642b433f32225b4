/*
 * Squashfs images: see image.h.
 *
 * The tool writes into a directory of its own below `tmp/`; what it made is taken over under the daemon's id, synced,
 * and renamed to where it was asked for, so that a half-written image or tree is never found there.
 */
#include "launch/image.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/clock.h"
#include "common/file.h"
#include "launch/image_change.h"
#include "launch/image_make.h"
#include "launch/sandbox.h"
#include "launch/stillness.h"
#include "common/syscalls.h"
#include "launch/tool.h"
#include "tree/tree.h"
#include "launch/upper.h"

/* ---- packing ---- */

/*
 * fuse-overlayfs lets the kernel keep written pages: they have to be in the upper before it is read. (The kernel's own
 * overlay shares its pages with the upper.) Only a member of the sandbox's user namespace may touch that mount, so a
 * child becomes one; it stays outside the pid namespace, where nobody inside can see it.
 */
static int flush_fuse(const struct sandbox *sandbox, struct fault *fault) {
  if (sandbox->overlay_pid == 0) return 0;
  pid_t child = fork();
  if (child == 0) {
    cleanup_fd pidfd = sys_pidfd_open(sandbox->pid);
    if (pidfd < 0 || setns(pidfd, CLONE_NEWUSER | CLONE_NEWNS) != 0) _exit(errno);
    /* An id that its map does not know could not be told to fuse-overlayfs. */
    if (setresgid(0, 0, 0) != 0 || setresuid(0, 0, 0) != 0) _exit(errno);
    cleanup_fd root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _exit(root >= 0 && syncfs(root) == 0 ? 0 : errno);
  }
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (child > 0 && status == 0) return 0;
  errno = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
  return fault_disk(fault, "launch_failed", "can't write back the files of sandbox \"%s\"", sandbox->name);
}

/* The sandbox stands still from before the first file is read until the image is complete. */
static int pack_still(struct image_change *change, uint64_t *pause_us, struct fault *fault) {
  const struct launcher *launcher = change->launcher;
  const struct request *request = change->request;
  struct sandbox *sandbox = launcher->sandboxes;
  while (sandbox != NULL && strcmp(sandbox->name, request->name) != 0) sandbox = sandbox->next;
  if (sandbox == NULL || sandbox->state != SANDBOX_RUNNING || sandbox->is_frozen) {
    *pause_us = 0;
    return image_change_pack(change, fault);
  }
  image_change_prepare(change);
  int64_t begin = now_us();
  int result = stillness_set(launcher, sandbox, true) == 0
                   ? 0
                   : fault_set(fault, "launch_failed", "can't freeze sandbox \"%s\"", request->name);
  if (result == 0) result = flush_fuse(sandbox, fault);
  if (result == 0) result = image_change_pack(change, fault);
  (void)stillness_set(launcher, sandbox, false); /* The launcher does it again when this worker ends. */
  *pause_us = (uint64_t)(now_us() - begin);
  return result;
}

int image_pack(const struct launcher *launcher, const struct request *request, struct frame_writer *answer,
               struct fault *fault) {
  const char *words[MKSQUASHFS_WORDS];
  struct image_packing pack = {.launcher = launcher};
  struct tool tool;
  char work[64];
  char data[REQUEST_PATH_BYTES_MAX + 8];
  uint64_t pause_us = 0;
  uint64_t bytes = 0;
  if (image_prepare_mksquashfs(&tool, words, &pack, request, fault) != 0) return -1;
  snprintf(data, sizeof data, "%s/data", request->upper);
  tool.input = data;
  cleanup_fd mount = -1;
  if (request->upper_kind == UPPER_IMAGE) {
    mount = upper_mount_again(launcher, request->upper, fault);
    if (mount < 0) return -1;
    tool.input = "data";
    tool.input_mount = mount;
  }
  if (image_make_work(launcher, "pack", work, sizeof work, fault) != 0) return -1;
  tool.output = work;
  struct image_change change = {.launcher = launcher, .request = request, .tool = &tool};
  int result = pack_still(&change, &pause_us, fault);
  if (result == 0) result = image_take_over(launcher, &tool, request->path, &bytes, fault);
  (void)tree_remove(launcher->data_fd, work, &(struct fault){0}); /* Else the next start empties tmp/. */
  if (result != 0) return -1;
  frame_integer(answer, FIELD_BYTES, bytes);
  frame_integer(answer, FIELD_PAUSE_US, pause_us);
  frame_integer(answer, FIELD_IS_CHANGE, change.is_change);
  frame_integer(answer, FIELD_HAS_INDEX, change.has_index);
  return 0;
}

/* ---- packing a tar ---- */

/* No file's time is later than the tar's own, which stands for the time of the image and of its root: the same tar gives the same image. */
static int epoch_of(const struct launcher *launcher, const char *path, char *text, size_t size) {
  struct stat status;
  cleanup_fd tar = open_beneath(launcher->data_fd, path, O_RDONLY | O_NOFOLLOW);
  if (tar < 0 || fstat(tar, &status) != 0 || !S_ISREG(status.st_mode)) return -1;
  snprintf(text, size, "SOURCE_DATE_EPOCH=%lld", (long long)(status.st_mtime < 0 ? 0 : status.st_mtime));
  return 0;
}

int image_pack_tar(const struct launcher *launcher, const struct request *request, struct frame_writer *answer,
                   struct fault *fault) {
  const char *words[MKSQUASHFS_WORDS + 3];
  static const char *const from_tar[] = {"-tar", "-root-mode", "755", NULL};
  struct image_packing pack = {.launcher = launcher};
  struct tool tool;
  char work[64];
  char epoch[64];
  uint64_t bytes = 0;
  if (image_prepare_mksquashfs(&tool, words, &pack, request, fault) != 0) return -1;
  words[1] = "-";
  memcpy(words + MKSQUASHFS_WORDS - 1, from_tar, sizeof from_tar);
  char *const environment[] = {epoch, NULL};
  tool.input = request->path;
  tool.input_as_stdin = true;
  tool.environment = environment;
  if (epoch_of(launcher, request->path, epoch, sizeof epoch) != 0) {
    return fault_set(fault, "launch_failed", "can't open \"%s\"", request->path);
  }
  if (image_make_work(launcher, "pack", work, sizeof work, fault) != 0) return -1;
  tool.output = work;
  int result = image_run_mksquashfs(&tool, fault);
  if (result == 0) result = image_take_over(launcher, &tool, request->target, &bytes, fault);
  (void)tree_remove(launcher->data_fd, work, &(struct fault){0});
  if (result != 0) return -1;
  frame_integer(answer, FIELD_BYTES, bytes);
  return 0;
}

/* ---- merging ---- */

static int merge_layers(const struct launcher *launcher, const struct request *request, const char *work,
                        struct fault *fault) {
  cleanup_fd directory = open_beneath(launcher->data_fd, work, O_RDONLY | O_DIRECTORY);
  if (directory < 0 || mkdirat(directory, "tree", 0700) != 0 || mkdirat(directory, "replaced", 0700) != 0) {
    return fault_disk(fault, "launch_failed", "can't make the directories of a merge");
  }
  cleanup_fd into = openat(directory, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  cleanup_fd replaced = openat(directory, "replaced", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const struct tree_stack stack = {
      .layers = request->lowers, .count = request->lower_count, .into = into, .replaced = replaced};
  return into < 0 || replaced < 0 ? fault_set(fault, "internal", "can't open the directories of a merge")
                                  : tree_merge(launcher->data_fd, &stack, fault);
}

int image_merge(const struct launcher *launcher, const struct request *request, struct frame_writer *answer,
                struct fault *fault) {
  const char *words[MKSQUASHFS_WORDS];
  struct image_packing pack = {.launcher = launcher};
  struct tool tool;
  char merge[64];
  char work[64];
  char tree[80];
  uint64_t bytes = 0;
  if (image_prepare_mksquashfs(&tool, words, &pack, request, fault) != 0) return -1;
  if (image_make_work(launcher, "merge", merge, sizeof merge, fault) != 0) return -1;
  int result = image_make_work(launcher, "pack", work, sizeof work, fault);
  if (result == 0) {
    snprintf(tree, sizeof tree, "%s/tree", merge);
    tool.input = tree;
    tool.output = work;
    result = merge_layers(launcher, request, merge, fault);
    if (result == 0) result = image_run_mksquashfs(&tool, fault);
    if (result == 0) result = image_take_over(launcher, &tool, request->path, &bytes, fault);
    (void)tree_remove(launcher->data_fd, work, &(struct fault){0});
  }
  (void)tree_remove(launcher->data_fd, merge, &(struct fault){0});
  if (result != 0) return -1;
  frame_integer(answer, FIELD_BYTES, bytes);
  return 0;
}

/* ---- unpacking ---- */

struct unpack {
  const struct launcher *launcher;
  int client;
  const char *work;
  struct tree_usage max;
  int64_t measure_at_ms;
  bool is_foreign; /* not packed here: it may have other tools' marks */
  bool has_root_time;
  time_t root_time;
};

static int check_size(const struct unpack *unpack, struct tree_usage *usage, struct fault *fault) {
  cleanup_fd work = open_beneath(unpack->launcher->data_fd, unpack->work, O_RDONLY | O_DIRECTORY);
  if (work < 0) return fault_set(fault, "internal", "can't open \"%s\"", unpack->work);
  if (tree_measure(work, &unpack->max, usage, fault) != 0) return -1;
  bool is_over = (unpack->max.bytes > 0 && usage->bytes > unpack->max.bytes) ||
                 (unpack->max.inodes > 0 && usage->inodes > unpack->max.inodes);
  errno = 0;
  if (!is_over) return 0;
  return fault_set(fault, "layer_corrupt", "the image unpacks to more than %llu bytes or %llu files",
                   (unsigned long long)unpack->max.bytes, (unsigned long long)unpack->max.inodes);
}

/* A small file may hold a tree without end: it is measured while it grows, less often the longer measuring takes. */
static bool unpack_goes_on(void *context, struct fault *fault) {
  struct unpack *unpack = context;
  struct tree_usage usage;
  errno = 0;
  if (image_is_given_up(unpack->client)) {
    fault_set(fault, "launch_failed", "the unpacking was given up");
    return false;
  }
  if (!image_has_room(unpack->launcher, fault)) return false;
  if (now_ms() < unpack->measure_at_ms) return true;
  int64_t begin = now_ms();
  if (check_size(unpack, &usage, fault) != 0) return strcmp(fault->code, "internal") == 0;
  unpack->measure_at_ms = now_ms() + 1000 + 10 * (now_ms() - begin);
  return true;
}

bool unsquashfs_says_only_devices(const char *says) {
  bool has_device = false;
  for (const char *line = says; *line != '\0';) {
    size_t length = strcspn(line, "\n");
    char text[512];
    snprintf(text, sizeof text, "%.*s", (int)(length < 511 ? length : 511), line);
    bool is_device = strncmp(text, "create_inode: failed to create ", 31) == 0 &&
                     (strncmp(text + 31, "block device ", 13) == 0 || strncmp(text + 31, "character device ", 17) == 0) &&
                     strstr(text, "Operation not permitted") != NULL;
    if (!is_device && strspn(text, " \t\r") != strlen(text)) return false;
    has_device |= is_device;
    line += length + (line[length] == '\n');
  }
  return has_device;
}

static int judge_unsquashfs(struct tool *tool, struct fault *fault) {
  int code = WIFEXITED(tool->status) ? WEXITSTATUS(tool->status) : -1;
  if (code == 0) return 0;
  /* 2: not everything could be made as it is in the image. Device nodes are left out on purpose. */
  if (code == 2 && !tool->said_more && unsquashfs_says_only_devices(tool->says)) return 0;
  errno = 0;
  if (image_is_too_large(tool)) {
    return fault_set(fault, "layer_corrupt", "the image holds a file of more than %llu bytes",
                     (unsigned long long)tool->file_bytes_max);
  }
  bool is_full = strstr(tool->says, "No space left") != NULL || strstr(tool->says, "Disk quota exceeded") != NULL;
  bool is_ours = code >= 120 && code <= 127;
  return fault_set(fault, is_full ? "disk_full" : is_ours ? "launch_failed" : "layer_corrupt",
                   "unsquashfs fails (status 0x%x): %s", (unsigned)tool->status, image_last_words(tool));
}

/* `/out/tree` becomes the asked directory. */
static int place_tree(const struct unpack *unpack, const char *target, struct fault *fault) {
  char made[96];
  const char *made_name;
  const char *name;
  int data_fd = unpack->launcher->data_fd;
  snprintf(made, sizeof made, "%s/tree", unpack->work);
  cleanup_fd tree = open_beneath(data_fd, made, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (tree < 0) return fault_set(fault, "layer_corrupt", "unsquashfs left no tree");
  if (unpack->is_foreign && tree_translate_marks(tree, fault) != 0) return -1;
  const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = unpack->root_time}};
  if (unpack->has_root_time && futimens(tree, times) != 0) return fault_disk(fault, "launch_failed", "can't set a time");
  /* The whole tree on disk before its name says that it is complete. */
  if (syncfs(tree) != 0) return fault_disk(fault, "launch_failed", "can't sync the unpacked tree");
  if (make_directories(data_fd, target, true) != 0) {
    return fault_disk(fault, "launch_failed", "can't make the directory of \"%s\"", target);
  }
  cleanup_fd from = open_parent(data_fd, made, &made_name);
  cleanup_fd parent = open_parent(data_fd, target, &name);
  if (from >= 0 && parent >= 0 && renameat(from, made_name, parent, name) == 0 && fsync(parent) == 0) return 0;
  return fault_disk(fault, "launch_failed", "can't rename the tree to \"%s\"", target);
}

int image_unpack(const struct launcher *launcher, const struct request *request, struct frame_writer *answer,
                 struct fault *fault) {
  const char *const words[] = {launcher->unsquashfs, "-d", "/out/tree", "-no-progress", "-quiet", "-xattrs",
                               "-da", "64", "-fr", "64", "/in", NULL};
  char work[64];
  struct unpack unpack = {.launcher = launcher,
                          .client = request->client,
                          .work = work,
                          .max = {.bytes = request->bytes_max, .inodes = request->inodes_max},
                          .measure_at_ms = now_ms() + 1000};
  struct tool tool = {.launcher = launcher,
                      .words = words,
                      .input = request->path,
                      .input_mount = -1,
                      .output = work,
                      .file_bytes_max = request->bytes_max,
                      .goes_on = unpack_goes_on,
                      .context = &unpack};
  struct tree_usage usage;
  errno = 0;
  if (launcher->unsquashfs == NULL) return fault_set(fault, "launch_failed", "unsquashfs is not installed");
  cleanup_fd source = open_beneath(launcher->data_fd, request->path, O_RDONLY);
  if (source < 0) return fault_set(fault, "layer_corrupt", "can't open \"%s\"", request->path);
  unpack.is_foreign = !image_has_own_mark(source);
  unpack.has_root_time = image_root_time(source, &unpack.root_time);
  if (image_make_work(launcher, "unpack", work, sizeof work, fault) != 0) return -1;
  int result = tool_run(&tool, fault);
  if (result == 0) result = judge_unsquashfs(&tool, fault);
  if (result == 0) result = check_size(&unpack, &usage, fault);
  if (result == 0) result = place_tree(&unpack, request->target, fault);
  (void)tree_remove(launcher->data_fd, work, &(struct fault){0});
  if (result != 0) return -1;
  frame_integer(answer, FIELD_BYTES, usage.bytes);
  frame_integer(answer, FIELD_INODES, usage.inodes);
  return 0;
}
