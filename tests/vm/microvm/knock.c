/* `knock CID PORT`: connects over vsock and tells what comes: `refused ERRNO`, `closed`, or `open` where nothing has come in a second. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/vm_sockets.h>

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  struct sockaddr_vm to = {
      .svm_family = AF_VSOCK, .svm_cid = (unsigned)atoi(argv[1]), .svm_port = (unsigned)atoi(argv[2])};
  int fd = socket(AF_VSOCK, SOCK_STREAM, 0);
  if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0) return printf("refused %d\n", errno) < 0;
  struct pollfd answer = {.fd = fd, .events = POLLIN | POLLRDHUP};
  char byte;
  if (poll(&answer, 1, 1000) == 0) return puts("open") < 0;
  ssize_t got = read(fd, &byte, 1);
  return puts(got > 0 ? "answered" : "closed") < 0;
}
