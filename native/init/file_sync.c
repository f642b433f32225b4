/* Writing a file system out, before what it lies on is taken away: a microVM's disk. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "init/file.h"
#include "init/request.h"

void file_sync(int socket) {
  cleanup_fd fd = open(request_path(FIELD_PATH), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 || syncfs(fd) != 0) answer_error(socket, errno, "the file system");
  else answer_ok(socket);
}
