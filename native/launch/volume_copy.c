/* Copies of volumes: see volume_copy.h. */
#include "launch/volume_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/image_make.h"
#include "launch/mounts.h"
#include "launch/tool.h"

struct copy {
  const struct launcher *launcher;
  int client;
};

/* A daemon that dies takes the copy with it: the next one removes what was made of it. */
static bool copy_goes_on(void *context, struct fault *fault) {
  const struct copy *copy = context;
  errno = 0;
  if (!image_is_given_up(copy->client)) return image_has_room(copy->launcher, fault);
  fault_set(fault, "launch_failed", "the copy was given up");
  return false;
}

static int run_cp(const struct launcher *launcher, const struct request *request, const int mounts[2],
                  struct fault *fault) {
  static const char *const words[] = {"/usr/bin/cp", "-a", "--reflink=auto", "-T", "/in", "/out", NULL};
  struct copy copy = {.launcher = launcher, .client = request->client};
  struct tool tool = {.launcher = launcher,
                      .words = words,
                      .input = ".",
                      .input_mount = mounts[0],
                      .output_mount = mounts[1],
                      .file_bytes_max = request->bytes_max,
                      .goes_on = copy_goes_on,
                      .context = &copy};
  if (tool_run(&tool, fault) != 0) return -1;
  if (WIFEXITED(tool.status) && WEXITSTATUS(tool.status) == 0) return 0;
  errno = 0;
  bool is_full = strstr(tool.says, "No space left") != NULL || strstr(tool.says, "Disk quota exceeded") != NULL;
  return fault_set(fault, is_full ? "disk_full" : "launch_failed", "cp fails (status 0x%x): %s", (unsigned)tool.status,
                   image_last_words(&tool));
}

int volume_copy(const struct launcher *launcher, const struct request *request, struct fault *fault) {
  int mounts[MOUNTS_MAX] = {-1, -1};
  errno = 0;
  if (request->mount_count != 2) return fault_set(fault, "invalid_request", "a copy is of one volume into one other");
  if (mounts_take_all(launcher, request, sandbox_root_id(launcher), mounts, fault) != 0) return -1;
  cleanup_fd written = fcntl(mounts[1], F_DUPFD_CLOEXEC, 0);
  if (run_cp(launcher, request, mounts, fault) != 0) return -1;
  cleanup_fd directory = openat(written, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0 && syncfs(directory) == 0) return 0;
  return fault_disk(fault, "launch_failed", "can't sync the copy");
}
