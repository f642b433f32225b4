/* A tree as a tar in data frames: see tar_send.h. */
#include "launch/tar_send.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "common/descriptor.h"
#include "common/file.h"
#include "tree/tar.h"

/* A client that reads nothing for this long is gone. It may be sending what it reads over a slow line. */
enum { STALL_S_MAX = 600 };

static int send_data(void *context, const uint8_t *bytes, size_t length) {
  const int *client = context;
  uint8_t header[FRAME_HEADER_BYTES];
  frame_header_write(header, FRAME_DATA, (uint32_t)length);
  return write_whole(*client, header, sizeof header) == 0 ? write_whole(*client, bytes, length) : -1;
}

int tar_send(const struct launcher *launcher, const struct request *request, struct frame_writer *answer,
                  struct fault *fault) {
  static struct tar_out out;
  int client = request->client;
  const struct timeval patience = {.tv_sec = STALL_S_MAX};
  cleanup_fd root = open_beneath(launcher->data_fd, request->path, O_RDONLY | O_DIRECTORY);
  if (root < 0) return fault_set(fault, "layer_corrupt", "can't open \"%s\"", request->path);
  out.write = send_data;
  out.context = &client;
  struct tree_tar tar = {.root = root, .id_first = sandbox_root_id(launcher), .out = &out};
  if (setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0 || tree_tar_write(&tar, fault) != 0) {
    return fault->code != NULL ? -1 : fault_set(fault, "launch_failed", "can't send a tar");
  }
  frame_integer(answer, FIELD_INODES, tar.changed);
  return 0;
}
