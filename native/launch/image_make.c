/*
 * Making squashfs images: see image_make.h.
 *
 * The tool writes into a directory of its own below `tmp/`; what it made is taken over under the daemon's id, synced,
 * and renamed to where it was asked for, so that a half-written image is never found there.
 */
#include "launch/image_make.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/clock.h"
#include "common/file.h"
#include "tree/tree.h"

/* What a tool may not take from the host's last room: the database and the logs need some. */
#define HOST_RESERVE_BYTES (UINT64_C(64) << 20)

int image_make_work(const struct launcher *launcher, const char *purpose, char *path, size_t size,
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

static bool pack_goes_on(void *context, struct fault *fault) {
  const struct image_packing *pack = context;
  errno = 0;
  if (!image_is_given_up(pack->client)) return image_has_room(pack->launcher, fault);
  fault_set(fault, "launch_failed", "the packing was given up");
  return false;
}

/* A file of terabytes may be one hole, and mksquashfs reads it: what would keep a sandbox standing still for hours is refused by its length. */
static int check_lengths(const struct launcher *launcher, const struct tool *tool, struct fault *fault) {
  const struct tree_usage max = {.lengths = TREE_LENGTHS_MAX};
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

/* Before it in an image of a change: mksquashfs gives the root of what it makes of a tar no time. */
struct change_mark {
  char magic[16];
  int64_t root_time;
};
static const char change_magic[16] = {'s', 'q', 'u', 'a', 's', 'h', ' ', 'c', 'h', 'a', 'n', 'g', 'e', ' ', '1', '\n'};

bool image_root_time(int image, time_t *seconds) {
  struct change_mark mark;
  off_t at = lseek(image, 0, SEEK_END) - (off_t)sizeof own_mark - (off_t)sizeof mark;
  if (!image_has_own_mark(image) || at < 0 || pread(image, &mark, sizeof mark, at) != (ssize_t)sizeof mark) return false;
  *seconds = (time_t)mark.root_time;
  return memcmp(mark.magic, change_magic, sizeof change_magic) == 0;
}

/* Behind what mksquashfs wrote. */
static int put_marks(const struct tool *tool, int file, struct stat *status) {
  struct change_mark change = {.root_time = tool->root_time};
  memcpy(change.magic, change_magic, sizeof change_magic);
  size_t length = tool->is_change ? sizeof change : 0;
  if (pwrite(file, &change, length, status->st_size) != (ssize_t)length) return -1;
  status->st_size += (off_t)length;
  if (pwrite(file, own_mark, sizeof own_mark, status->st_size) != (ssize_t)sizeof own_mark) return -1;
  status->st_size += (off_t)sizeof own_mark;
  return 0;
}

bool image_has_own_mark(int image) {
  char last[sizeof own_mark];
  off_t end = lseek(image, 0, SEEK_END);
  if (end < (off_t)sizeof last || pread(image, last, sizeof last, end - (off_t)sizeof last) != (ssize_t)sizeof last) {
    return false;
  }
  return memcmp(last, own_mark, sizeof last) == 0;
}

static bool is_of_tar(const struct tool *tool) { return tool->input_as_stdin || tool->piped_input > 0; }

int image_take_over(const struct launcher *launcher, const struct tool *tool, const char *path, uint64_t *bytes,
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
  if (is_of_tar(tool) || !launcher->overlays_by_fuse) {
    if (put_marks(tool, file, &status) != 0) return fault_disk(fault, "launch_failed", "can't mark the image");
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

/* bubblewrap passes a signal on as 128 and its number. */
bool image_is_too_large(const struct tool *tool) {
  return WIFEXITED(tool->status) && WEXITSTATUS(tool->status) == 128 + SIGXFSZ;
}

int image_run_mksquashfs(struct tool *tool, struct fault *fault) {
  if (!is_of_tar(tool) && check_lengths(tool->launcher, tool, fault) != 0) return -1;
  if (tool_run(tool, fault) != 0) return -1;
  if (WIFEXITED(tool->status) && WEXITSTATUS(tool->status) == 0) return 0;
  errno = 0;
  if (image_is_too_large(tool)) {
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

int image_prepare_mksquashfs(struct tool *tool, const char **words, struct image_packing *pack, const struct request *request,
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

