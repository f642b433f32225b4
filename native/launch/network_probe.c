/* Whether a sandbox's network can be set up here: tried by a child, for the host probe. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/network.h"

bool network_probe(char *why, size_t size) {
  int ends[2];
  snprintf(why, size, "the kernel makes no network namespace");
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  cleanup_fd reader = ends[0];
  cleanup_fd writer = ends[1];
  pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) {
    struct network network;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0 || network_set_up(&network) != 0) _exit(1);
    (void)write_whole(writer, &network, sizeof network);
    _exit(0);
  }
  close_fd(&writer);
  struct network network;
  bool is_made = read_whole(reader, &network, sizeof network) == 1;
  while (waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
  if (is_made) snprintf(why, size, "%s", network.warning);
  return is_made && network.warning[0] == '\0';
}
