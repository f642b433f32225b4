/* Images of changes: see image_change.h. */
#include "launch/image_change.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/file.h"
#include "launch/image_make.h"
#include "launch/log.h"
#include "tree/change.h"
#include "tree/tar.h"

enum { WRITER_DONE = 0, WRITER_UNFIT = 3, TAR_WORDS = 4 };

static bool has_times(const struct image_change *change) {
  return change->request->index != NULL && change->request->upper_kind != UPPER_TMPFS &&
         !change->launcher->overlays_by_fuse;
}

/* Those of which it is known that they note each change with this machine's clock, also through a mapping. */
static bool notes_changes(int root) {
  struct statfs status;
  if (fstatfs(root, &status) != 0) return false;
  switch ((unsigned long)status.f_type) {
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC: return true;
    default: return false;
  }
}

static int open_root(const struct image_change *change) {
  const struct tool *tool = change->tool;
  return tool->input_mount >= 0 ? openat(tool->input_mount, tool->input, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                                : open_beneath(change->launcher->data_fd, tool->input, O_RDONLY | O_DIRECTORY);
}

void image_change_prepare(const struct image_change *change) {
  cleanup_fd root = has_times(change) ? open_root(change) : -1;
  if (root >= 0) (void)syncfs(root); /* It is done again, and checked, when nobody writes any more. */
}

static int make_index(const struct image_change *change) {
  const char *name;
  const char *path = change->request->index;
  int data_fd = change->launcher->data_fd;
  if (make_directories(data_fd, path, true) != 0) return -1;
  cleanup_fd parent = open_parent(data_fd, path, &name);
  if (parent < 0 || (unlinkat(parent, name, 0) != 0 && errno != ENOENT)) return -1;
  return openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static int open_known(const struct image_change *change) {
  const char *path = change->request->known;
  return path == NULL ? -1 : open_beneath(change->launcher->data_fd, path, O_RDONLY | O_NOFOLLOW);
}

/* ---- the change alone ---- */

static int write_to_pipe(void *context, const uint8_t *bytes, size_t length) {
  const int *pipe_end = context;
  return write_whole(*pipe_end, bytes, length);
}

static _Noreturn void write_change(const struct image_change *change, struct tree_comparison *comparison, int output) {
  static struct tar_out out = {.write = write_to_pipe};
  static struct tree_judge judge;
  struct fault fault = {0};
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  signal(SIGPIPE, SIG_IGN); /* mksquashfs says why it ended. */
  out.context = &output;
  judge.links = &comparison->links;
  cleanup_fd known = open_known(change);
  if (known < 0 || !tree_index_open(&judge.known, take_fd(&known), comparison->status.st_dev)) _exit(WRITER_UNFIT);
  struct tree_tar tar = {.root = comparison->root, .id_first = comparison->id_first, .out = &out, .judge = &judge};
  /* mksquashfs reads no further than the end's first block. What it makes of less than that is refused with its status. */
  if (tree_tar_write(&tar, &fault) != 0 && fault.number != EPIPE) {
    log_line("change of \"%s\": %s", change->request->name, fault.text);
    _exit(WRITER_UNFIT);
  }
  _exit(judge.is_unfit || tar.has_odd_attributes || tar.changed > 0 ? WRITER_UNFIT : WRITER_DONE);
}

static int run_on_pipe(const struct image_change *change, struct tree_comparison *comparison, struct tool *tool,
                       bool *is_unfit, struct fault *fault) {
  int ends[2];
  errno = 0;
  if (pipe2(ends, O_CLOEXEC) != 0) return fault_set(fault, "launch_failed", "can't make a pipe");
  cleanup_fd reader = ends[0];
  cleanup_fd writer = ends[1];
  pid_t child = fork();
  if (child == 0) {
    close_fd(&reader);
    write_change(change, comparison, writer);
  }
  close_fd(&writer);
  if (child < 0) return fault_set(fault, "launch_failed", "can't fork");
  tool->piped_input = reader;
  int result = image_run_mksquashfs(tool, fault);
  int number = errno;
  close_fd(&reader);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  /* Also where it was killed: what was cut off may look like all of it. */
  *is_unfit = !WIFEXITED(status) || WEXITSTATUS(status) != WRITER_DONE;
  errno = number;
  return result;
}

/* The root of such an image is none of its tar's: it is described by words. */
static int pack_change(const struct image_change *change, struct tree_comparison *comparison, bool *is_unfit,
                       struct fault *fault) {
  const char *words[MKSQUASHFS_WORDS + TAR_WORDS];
  char mode[16];
  struct tool tool = *change->tool;
  size_t count = 0;
  while (tool.words[count] != NULL) words[count] = tool.words[count], count++;
  snprintf(mode, sizeof mode, "%o", comparison->status.st_mode & 07777);
  const char *const more[TAR_WORDS] = {"-tar", "-root-mode", mode, NULL};
  words[1] = "-";
  memcpy(words + count, more, sizeof more);
  tool.words = words;
  tool.input = tool.output; /* Nothing of the upper is shown to it. */
  tool.input_mount = -1;
  return run_on_pipe(change, comparison, &tool, is_unfit, fault);
}

int image_change_pack(struct image_change *change, struct fault *fault) {
  if (!has_times(change)) return image_run_mksquashfs(change->tool, fault);
  cleanup_fd root = open_root(change);
  if (root < 0) return fault_set(fault, "launch_failed", "can't open the upper");
  if (!notes_changes(root)) return image_run_mksquashfs(change->tool, fault);
  if (syncfs(root) != 0) return fault_disk(fault, "launch_failed", "can't write the upper back");
  struct tree_comparison comparison = {.root = root,
                                       .id_first = sandbox_root_id(change->launcher),
                                       .known = open_known(change),
                                       .written = make_index(change)};
  /* A tree that can't be walked, for the length of its paths, say, is refused by mksquashfs in its own words. */
  bool is_walked = tree_compare(&comparison) == 0;
  change->has_index = is_walked && comparison.is_written;
  int result = 0;
  if (is_walked && comparison.fits) {
    bool is_unfit = false;
    result = pack_change(change, &comparison, &is_unfit, fault);
    change->is_change = result == 0 && !is_unfit;
    change->tool->is_change = change->is_change;
    change->tool->root_time = comparison.status.st_mtim.tv_sec;
    if (is_unfit) result = 0;
  }
  tar_links_free(&comparison.links);
  if (result != 0 || change->is_change) return result;
  return image_run_mksquashfs(change->tool, fault);
}
