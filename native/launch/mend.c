/*
 * Mending from outside: see mend.h. Nothing but root can start a privileged helper, and a launcher whose sandboxes live
 * is not to end for want of one: the new helper's socket is handed to it.
 */
#include "launch/mend.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/frame.h"
#include "launch/cgroup.h"
#include "launch/helper_process.h"
#include "launch/ids.h"
#include "launch/launcher_record.h"
#include "launch/message.h"
#include "launch/socket.h"
#include "common/syscalls.h"

/* The launcher answers within milliseconds, or it hangs. */
enum { ANSWER_S_MAX = 5 };

int launcher_connect(int run_fd, struct ucred *peer) {
  bool is_root = is_root_of_range();
  if (is_root && seteuid(ROOT_RANGE_FIRST) != 0) return -1;
  cleanup_fd connection = socket_connect_within(run_fd, "launch.sock", ANSWER_S_MAX);
  if (is_root && seteuid(0) != 0) abort();
  socklen_t size = sizeof *peer;
  if (connection < 0 || getsockopt(connection, SOL_SOCKET, SO_PEERCRED, peer, &size) != 0) return -1;
  return take_fd(&connection);
}

/* The launcher that root made, and not whoever took its socket's name. It is pinned before it is compared, and connected
   still: the id was not used again for somebody else. */
static bool is_launcher(const char *group, int connection, const struct ucred *peer) {
  struct pollfd hangup = {.fd = connection, .events = POLLIN | POLLRDHUP};
  cleanup_fd pidfd = sys_pidfd_open(peer->pid);
  return pidfd >= 0 && poll(&hangup, 1, 0) == 0 && launcher_record_names(group, peer->pid);
}

/* What the launcher says besides yes is nothing that root reads. */
static int hand_over(const char *group, int run_fd, int helper, struct fault *fault) {
  uint8_t request[FRAME_HEADER_BYTES];
  uint8_t answer[FRAME_HEADER_BYTES];
  struct frame_header header;
  frame_header_write(request, FRAME_HELPER_ATTACH, 0);
  struct ucred peer;
  cleanup_fd connection = launcher_connect(run_fd, &peer);
  errno = 0;
  if (connection >= 0 && !is_launcher(group, connection, &peer)) {
    return fault_set(fault, "launch_failed",
                     launcher_record_exists(group)
                         ? "launch.sock belongs to another process than the launcher, which gets no privileged helper: end "
                           "everything and start again (`squash stop --all`, `squash serve`)"
                         : "nothing below /run/squash-launch says who the launcher is, so it gets no other privileged helper: end "
                           "everything and start again (`squash stop --all`, `squash serve`)");
  }
  if (connection >= 0 && message_send(connection, request, sizeof request, &helper, 1) == 0 &&
      read_whole(connection, answer, sizeof answer) == 1 && frame_header_parse(answer, &header) == FRAME_FINE &&
      header.type == FRAME_OK) {
    return 0;
  }
  return fault_set(fault, "launch_failed",
                   "the launcher takes no other privileged helper: end everything and start again "
                   "(`squash stop --all`, `squash serve`)");
}

int mend_helper(const char *data, int data_fd, int run_fd, struct fault *fault) {
  int ends[2];
  struct cgroup_setup groups;
  cleanup_fd lock = helper_lock_now(data_fd);
  if (lock < 0) return 0;
  if (helper_pair(ends, fault) != 0) return -1;
  cleanup_fd launchers = ends[0];
  cleanup_fd own = ends[1];
  char group[CGROUP_NAME_BYTES];
  cgroup_base_name(data, group, sizeof group);
  if (hand_over(group, run_fd, launchers, fault) != 0) return -1;
  close_fd(&launchers);
  cgroup_find(&groups, data);
  int result = helper_start(&(struct helper){own, lock, data_fd, &groups}, fault);
  cgroup_setup_close(&groups);
  return result;
}
