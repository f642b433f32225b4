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
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/clock.h"
#include "launch/file.h"
#include "launch/log.h"
#include "launch/sandbox.h"
#include "launch/stillness.h"
#include "launch/syscalls.h"
#include "launch/tool.h"
#include "launch/tree.h"
#include "launch/upper.h"

/* What a tool may not take from the host's last room: the database and the logs need some. */
#define HOST_RESERVE_BYTES (UINT64_C(64) << 20)
/* As layerBytesMax in contract/src/limits.ts: what is longer could not be unpacked again. mksquashfs reads holes, too. */
#define PACK_LENGTHS_MAX (UINT64_C(64) << 30)

/* `tmp/<purpose>-<pid>-<time>`, writable for the sandbox's root id that the tool runs as. */
static int make_work(const struct launcher *launcher, const char *purpose, char *path, size_t size,
                     struct fault *fault) {
  unsigned owner = sandbox_root_id(launcher);
  snprintf(path, size, "tmp/%s-%d-%lld", purpose, getpid(), (long long)now_us());
  if (make_directories(launcher->data_fd, path, false) == 0 &&
      fchownat(launcher->data_fd, path, owner, owner, AT_SYMLINK_NOFOLLOW) == 0) {
    return 0;
  }
  return fault_disk(fault, "launch_failed", "can't make \"%s\"", path);
}

bool image_has_room(const struct launcher *launcher, struct fault *fault) {
  struct statfs status;
  if (fstatfs(launcher->data_fd, &status) != 0) return true;
  if (status.f_bavail * (uint64_t)status.f_frsize >= HOST_RESERVE_BYTES) return true;
  errno = ENOSPC;
  fault_set(fault, "disk_full", "the data directory's file system is full");
  return false;
}

/* The tool's last words in one line, for the message. Names in it may be any bytes; a message is text. */
const char *image_last_words(struct tool *tool) {
  for (char *byte = tool->says; *byte != '\0'; byte++) {
    if ((unsigned char)*byte < 0x20) *byte = ' ';
    if ((unsigned char)*byte > 0x7e) *byte = '?';
  }
  return tool->says_bytes > 400 ? tool->says + tool->says_bytes - 400 : tool->says;
}

/* The daemon closes its side when nobody wants the result any more, and when it dies. */
bool image_is_given_up(int client) {
  struct pollfd end = {.fd = client, .events = POLLRDHUP};
  return poll(&end, 1, 0) > 0 && (end.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/* ---- packing ---- */

struct pack {
  const struct launcher *launcher;
  int client;
};

static bool pack_goes_on(void *context, struct fault *fault) {
  const struct pack *pack = context;
  errno = 0;
  if (!image_is_given_up(pack->client)) return image_has_room(pack->launcher, fault);
  fault_set(fault, "launch_failed", "the packing was given up");
  return false;
}

/* A file of terabytes may be one hole: what would keep a sandbox standing still for hours is refused by its length. */
static int check_lengths(const struct launcher *launcher, const struct tool *tool, struct fault *fault) {
  const struct tree_usage max = {.lengths = PACK_LENGTHS_MAX};
  struct tree_usage usage;
  cleanup_fd tree = tool->input_mount >= 0 ? openat(tool->input_mount, tool->input, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                                           : open_beneath(launcher->data_fd, tool->input, O_RDONLY | O_DIRECTORY);
  if (tree < 0) return fault_set(fault, "launch_failed", "can't open \"%s\"", tool->input);
  if (tree_measure(tree, &max, &usage, fault) != 0) return -1;
  errno = 0;
  if (usage.lengths <= max.lengths) return 0;
  return fault_set(fault, "disk_full", "the files are longer than %llu bytes together, holes included",
                   (unsigned long long)max.lengths);
}

/*
 * The last bytes of an image that was packed here from the kernel's overlay: its marks are the kernel's, and a name
 * that looks like another tool's mark is a file's name. Readers of squashfs do not look behind what the superblock counts.
 */
static const char own_mark[16] = {'s', 'q', 'u', 'a', 's', 'h', ' ', 's', 'n', 'a', 'p', 's', 'h', 'o', 't', '\n'};

static bool has_own_mark(int image) {
  char last[sizeof own_mark];
  off_t end = lseek(image, 0, SEEK_END);
  if (end < (off_t)sizeof last || pread(image, last, sizeof last, end - (off_t)sizeof last) != (ssize_t)sizeof last) {
    return false;
  }
  return memcmp(last, own_mark, sizeof last) == 0;
}

/* Takes over what mksquashfs wrote: from a file in the tool's directory to the asked name. */
static int take_over(const struct launcher *launcher, const struct tool *tool, const char *path, uint64_t *bytes,
                     struct fault *fault) {
  char made[96];
  const char *made_name;
  const char *name;
  struct stat status;
  snprintf(made, sizeof made, "%s/image", tool->output);
  cleanup_fd file = open_beneath(launcher->data_fd, made, O_RDWR | O_NOFOLLOW);
  if (file < 0 || fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) {
    return fault_set(fault, "launch_failed", "mksquashfs left no image");
  }
  /* In what the daemon has written as a tar there are no other marks, whatever this host overlays by. */
  if (tool->input_as_stdin || !launcher->overlays_by_fuse) {
    if (pwrite(file, own_mark, sizeof own_mark, status.st_size) != (ssize_t)sizeof own_mark) {
      return fault_disk(fault, "launch_failed", "can't mark the image");
    }
    status.st_size += (off_t)sizeof own_mark;
  }
  if (fchown(file, 0, 0) != 0 || fchmod(file, 0644) != 0 || fsync(file) != 0) {
    return fault_disk(fault, "launch_failed", "can't keep the image");
  }
  if (make_directories(launcher->data_fd, path, true) != 0) {
    return fault_disk(fault, "launch_failed", "can't make the directory of \"%s\"", path);
  }
  cleanup_fd from = open_parent(launcher->data_fd, made, &made_name);
  cleanup_fd parent = open_parent(launcher->data_fd, path, &name);
  if (from < 0 || parent < 0 || renameat(from, made_name, parent, name) != 0 || fsync(parent) != 0) {
    return fault_disk(fault, "launch_failed", "can't rename the image to \"%s\"", path);
  }
  *bytes = (uint64_t)status.st_size;
  return 0;
}

/* Ended by RLIMIT_FSIZE; bubblewrap passes a signal on as 128 and its number. */
static bool is_too_large(const struct tool *tool) {
  return WIFEXITED(tool->status) && WEXITSTATUS(tool->status) == 128 + SIGXFSZ;
}

static int run_mksquashfs(struct tool *tool, struct fault *fault) {
  if (!tool->input_as_stdin && check_lengths(tool->launcher, tool, fault) != 0) return -1;
  if (tool_run(tool, fault) != 0) return -1;
  if (WIFEXITED(tool->status) && WEXITSTATUS(tool->status) == 0) return 0;
  errno = 0;
  if (is_too_large(tool)) {
    return fault_set(fault, "disk_full", "the image would be larger than %llu bytes",
                     (unsigned long long)tool->file_bytes_max);
  }
  /* It opens what it packs by whole paths, below a name of four bytes. */
  if (strstr(tool->says, "because File name too long") != NULL) {
    return fault_set(fault, "snapshot_path_too_long", "a path in the sandbox is longer than %d bytes", PATH_MAX - 4);
  }
  bool is_full = strstr(tool->says, "No space left") != NULL || strstr(tool->says, "Disk quota exceeded") != NULL;
  return fault_set(fault, is_full ? "disk_full" : "launch_failed", "mksquashfs fails (status 0x%x): %s",
                   (unsigned)tool->status, image_last_words(tool));
}

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
static int pack_still(const struct launcher *launcher, const struct request *request, struct tool *tool,
                      uint64_t *pause_us, struct fault *fault) {
  struct sandbox *sandbox = launcher->sandboxes;
  while (sandbox != NULL && strcmp(sandbox->name, request->name) != 0) sandbox = sandbox->next;
  if (sandbox == NULL || sandbox->state != SANDBOX_RUNNING || sandbox->is_frozen) {
    *pause_us = 0;
    return run_mksquashfs(tool, fault);
  }
  int64_t begin = now_us();
  int result = stillness_set(launcher, sandbox, true) == 0
                   ? 0
                   : fault_set(fault, "launch_failed", "can't freeze sandbox \"%s\"", request->name);
  if (result == 0) result = flush_fuse(sandbox, fault);
  if (result == 0) result = run_mksquashfs(tool, fault);
  (void)stillness_set(launcher, sandbox, false); /* The launcher does it again when this worker ends. */
  *pause_us = (uint64_t)(now_us() - begin);
  return result;
}

enum { MKSQUASHFS_WORDS = 18 };

/* What to pack is left to be said; `words` and `pack` have to last as long. */
static int prepare_mksquashfs(struct tool *tool, const char **words, struct pack *pack, const struct request *request,
                              struct fault *fault) {
  const struct launcher *launcher = pack->launcher;
  /* Level 3: a sandbox stands still meanwhile. Against the default 15 images are some percent larger. */
  const char *const fixed[MKSQUASHFS_WORDS] = {
      launcher->mksquashfs, "/in", "/out/image", "-comp", "zstd", "-Xcompression-level", "3", "-b", "131072",
      "-xattrs", "-noappend", "-no-recovery", "-no-progress", "-quiet", "-exit-on-error", "-mem", "256M", NULL};
  memcpy(words, fixed, sizeof fixed);
  pack->client = request->client;
  *tool = (struct tool){.launcher = launcher,
                        .words = words,
                        .input_mount = -1,
                        .written_early = "image",
                        .file_bytes_max = request->bytes_max,
                        .goes_on = pack_goes_on,
                        .context = pack};
  errno = 0;
  return launcher->mksquashfs != NULL ? 0 : fault_set(fault, "launch_failed", "mksquashfs is not installed");
}

int image_pack(const struct launcher *launcher, const struct request *request, struct frame_writer *answer,
               struct fault *fault) {
  const char *words[MKSQUASHFS_WORDS];
  struct pack pack = {.launcher = launcher};
  struct tool tool;
  char work[64];
  char data[REQUEST_PATH_BYTES_MAX + 8];
  uint64_t pause_us = 0;
  uint64_t bytes = 0;
  if (prepare_mksquashfs(&tool, words, &pack, request, fault) != 0) return -1;
  snprintf(data, sizeof data, "%s/data", request->upper);
  tool.input = data;
  cleanup_fd mount = -1;
  if (request->upper_kind == UPPER_IMAGE) {
    mount = upper_mount_again(launcher, request->upper, fault);
    if (mount < 0) return -1;
    tool.input = "data";
    tool.input_mount = mount;
  }
  if (make_work(launcher, "pack", work, sizeof work, fault) != 0) return -1;
  tool.output = work;
  int result = pack_still(launcher, request, &tool, &pause_us, fault);
  if (result == 0) result = take_over(launcher, &tool, request->path, &bytes, fault);
  (void)tree_remove(launcher->data_fd, work, &(struct fault){0}); /* Else the next start empties tmp/. */
  if (result != 0) return -1;
  frame_integer(answer, FIELD_BYTES, bytes);
  frame_integer(answer, FIELD_PAUSE_US, pause_us);
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
  struct pack pack = {.launcher = launcher};
  struct tool tool;
  char work[64];
  char epoch[64];
  uint64_t bytes = 0;
  if (prepare_mksquashfs(&tool, words, &pack, request, fault) != 0) return -1;
  words[1] = "-";
  memcpy(words + MKSQUASHFS_WORDS - 1, from_tar, sizeof from_tar);
  char *const environment[] = {epoch, NULL};
  tool.input = request->path;
  tool.input_as_stdin = true;
  tool.environment = environment;
  if (epoch_of(launcher, request->path, epoch, sizeof epoch) != 0) {
    return fault_set(fault, "launch_failed", "can't open \"%s\"", request->path);
  }
  if (make_work(launcher, "pack", work, sizeof work, fault) != 0) return -1;
  tool.output = work;
  int result = run_mksquashfs(&tool, fault);
  if (result == 0) result = take_over(launcher, &tool, request->target, &bytes, fault);
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
  struct pack pack = {.launcher = launcher};
  struct tool tool;
  char merge[64];
  char work[64];
  char tree[80];
  uint64_t bytes = 0;
  if (prepare_mksquashfs(&tool, words, &pack, request, fault) != 0) return -1;
  if (make_work(launcher, "merge", merge, sizeof merge, fault) != 0) return -1;
  int result = make_work(launcher, "pack", work, sizeof work, fault);
  if (result == 0) {
    snprintf(tree, sizeof tree, "%s/tree", merge);
    tool.input = tree;
    tool.output = work;
    result = merge_layers(launcher, request, merge, fault);
    if (result == 0) result = run_mksquashfs(&tool, fault);
    if (result == 0) result = take_over(launcher, &tool, request->path, &bytes, fault);
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
  if (is_too_large(tool)) {
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
  unpack.is_foreign = !has_own_mark(source);
  if (make_work(launcher, "unpack", work, sizeof work, fault) != 0) return -1;
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
