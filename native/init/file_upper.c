/*
 * What a guest has written, as a tar: of its upper, with the marks of the overlay, as the launcher writes that of another sandbox. All
 * commands stand still meanwhile; PID 1 lets them go on, also where this worker is ended.
 */
#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/descriptor.h"
#include "init/file.h"
#include "init/machine.h"
#include "tree/tar.h"
#include "tree/tree.h"

static int put(void *context, const uint8_t *bytes, size_t length) {
  const int *socket = context;
  answer_data(*socket, bytes, length);
  return 0;
}

void file_upper(int socket) {
  static struct tar_out out;
  static struct fault fault;
  out = (struct tar_out){.write = put, .context = &socket};
  if (machine_freeze() != 0) {
    answer_error(socket, errno, "the commands, which do not stand still");
    return;
  }
  struct tree_tar tar = {.root = MACHINE_UPPER, .out = &out, .tells_holes = true, .lengths_max = TREE_LENGTHS_MAX};
  int result = tree_tar_write(&tar, &fault);
  machine_thaw();
  if (result != 0) answer_error(socket, fault.number, "the upper");
  else answer_end(socket);
}
