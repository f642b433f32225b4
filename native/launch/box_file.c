/* One file of a box: see box_file.h. */
#include "launch/box_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/frame.h"
#include "launch/box_tree.h"
#include "common/file.h"
#include "launch/place_trees.h"
#include "launch/upper.h"

/* As in contract/src/change-limits.ts. */
enum { FILE_BYTES_MAX = 1000000 };

static int send_bytes(int client, int file, size_t left, struct fault *fault) {
  static uint8_t bytes[FRAME_HEADER_BYTES + FRAME_DATA_BYTES_MAX];
  while (left > 0) {
    ssize_t got = read(file, bytes + FRAME_HEADER_BYTES, left < FRAME_DATA_BYTES_MAX ? left : FRAME_DATA_BYTES_MAX);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fault_set(fault, "launch_failed", "can't read a file of the box");
    if (got == 0) return 0;
    frame_header_write(bytes, FRAME_DATA, (uint32_t)got);
    if (write_whole(client, bytes, FRAME_HEADER_BYTES + (size_t)got) != 0) return fault_set(fault, "launch_failed", "nobody listens");
    left -= (size_t)got;
  }
  return 0;
}

int box_file_send(const struct launcher *launcher, const struct request *request, struct fault *fault) {
  struct own own;
  struct stat status;
  errno = 0;
  if (request->mount_count != 1) return fault_set(fault, "invalid_request", "a file of one place");
  cleanup_fd to = places_open(launcher, &request->mounts[0], fault);
  cleanup_fd upper = to < 0 ? -1 : upper_open(launcher, request, fault);
  if (upper < 0) return -1;
  cleanup_fd data = open_beneath(upper, "data", O_PATH | O_DIRECTORY);
  cleanup_fd from = data < 0 ? -1 : open_beneath(data, request->mounts[0].target, O_RDONLY | O_DIRECTORY);
  if (from < 0 || box_look(from, request->path, &own) != 0) own.kind = OWN_NOTHING;
  errno = 0;
  if (own.kind == OWN_NOTHING || own.kind == OWN_GONE) return fault_set(fault, "file_not_found", "the box has written no such file");
  if (own.kind != OWN_FILE) return fault_set(fault, "not_a_file", "what the box has there is no regular file");
  cleanup_fd file = box_open_file(from, request->path);
  if (file < 0 || fstat(file, &status) != 0) return fault_set(fault, "file_not_found", "the box has changed it just now");
  errno = 0;
  if (status.st_size > FILE_BYTES_MAX) return fault_set(fault, "not_a_file", "longer than %d bytes", FILE_BYTES_MAX);
  return send_bytes(request->client, file, (size_t)status.st_size, fault);
}
