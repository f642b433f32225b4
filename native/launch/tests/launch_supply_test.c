/* What gathers for a start, while the helper takes its time: it holds nothing that it does not need, and it says why it failed. */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/supply.h"
#include "tests/check.h"

enum { WAIT_MS = 10000 };

static bool is_readable(int fd, int wait_ms) {
  struct pollfd readable = {.fd = fd, .events = POLLIN};
  return poll(&readable, 1, wait_ms) == 1;
}

int main(void) {
  char path[] = "/tmp/launch-supply-XXXXXX";
  int helper[2];
  int supply[2];
  int other[2];
  char byte;
  CHECK(mkdtemp(path) != NULL);
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, helper) == 0);
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, supply) == 0);
  CHECK(pipe2(other, O_CLOEXEC) == 0);
  const struct launcher launcher = {.data_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .helper_fd = helper[0]};
  const struct request request = {
      .hostname = "h", .upper = "1", .hosts = "", .resolv_conf = "", .upper_kind = UPPER_IMAGE, .makes_upper = true};
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  pid_t pid = fork();
  if (pid == 0) {
    close(supply[1]);
    close(helper[1]);
    supply_main(&launcher, &(struct supply_plan){&request, 1, listener, supply[0]});
  }
  close(supply[0]);
  close(other[1]);
  CHECK(is_readable(other[0], WAIT_MS) && read(other[0], &byte, 1) == 0);
  CHECK(is_readable(helper[1], WAIT_MS) && !is_readable(supply[1], 0));
  close(helper[1]);
  close(helper[0]);
  static struct supply received;
  struct fault fault = {0};
  CHECK(supply_receive(supply[1], &received, &fault) != 0);
  CHECK(fault.code != NULL && strstr(fault.text, "helper ended") != NULL);
  close(supply[1]);
  CHECK(waitpid(pid, NULL, 0) == pid);
  CHECK(rmdir(path) == 0);
  return check_summary();
}
