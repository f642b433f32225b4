/* The way to the host: see host_socket.h. */
#include "boot/host_socket.h"

#include <sys/socket.h>
/* Behind the one that it needs. */
#include <linux/vm_sockets.h>
#include <unistd.h>

#include "boot/failure.h"
#include "common/descriptor.h"

enum {
  /* Above those that only root may listen on, which is nothing here: it is taken before anybody else runs. */
  GUEST_PORT = 1024,
  READY_PORT = 1,
  BACKLOG = 1024,
};

int host_socket_listen(void) {
  const struct sockaddr_vm any = {.svm_family = AF_VSOCK, .svm_port = GUEST_PORT, .svm_cid = VMADDR_CID_ANY};
  int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, (const struct sockaddr *)&any, sizeof any) != 0 || listen(fd, BACKLOG) != 0) {
    boot_fail("listen on vsock port %d", GUEST_PORT);
  }
  return fd;
}

int host_socket_tell(void) {
  const struct sockaddr_vm host = {.svm_family = AF_VSOCK, .svm_port = READY_PORT, .svm_cid = VMADDR_CID_HOST};
  cleanup_fd fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);
  return fd < 0 || connect(fd, (const struct sockaddr *)&host, sizeof host) != 0 ? -1 : 0;
}
