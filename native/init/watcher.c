/* The watcher's process: see watcher.h. */
#include "init/watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/loop.h"
#include "common/pid_one.h"
#include "init/file.h"
#include "init/request.h"
#include "init/watches.h"

enum {
  CHANNEL = 3,
  IDLE_MS = 2000,
  /* Requests taken per turn: events that wait must not be lost for a storm of new watches. */
  REQUESTS_PER_TURN = 32,
};

static struct watch channel = {.fd = -1}; /* PID 1's end */
static struct watch requests;             /* the watcher's */

static bool receive_watch(void) {
  static struct watch_request handover;
  int descriptors[2];
  _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof descriptors)];
  struct iovec bytes = {.iov_base = &handover, .iov_len = sizeof handover};
  struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  ssize_t got = recvmsg(requests.fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got == 0) watch_close(&requests); /* PID 1 and all workers have let go of it. */
  if (got <= 0) return false;
  const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (got != (ssize_t)sizeof handover || header == NULL || header->cmsg_type != SCM_RIGHTS) return true;
  if (header->cmsg_len != CMSG_LEN(sizeof descriptors)) {
    /* Out of descriptors: what came is closed, its peer sees the end. */
    if (header->cmsg_len == CMSG_LEN(sizeof(int))) {
      memcpy(descriptors, CMSG_DATA(header), sizeof(int));
      (void)close(descriptors[0]);
    }
    return true;
  }
  memcpy(descriptors, CMSG_DATA(header), sizeof descriptors);
  watches_add(descriptors[0], descriptors[1], &handover);
  return true;
}

static void requests_ready(void *owner, uint32_t events) {
  (void)owner;
  (void)events;
  for (int i = 0; i < REQUESTS_PER_TURN && receive_watch(); i++) continue;
}

/* The kernel gives a user so many instances. Those of watchers that ended a moment ago may take a busy machine a while to
   come back: this is a process of its own and can wait for it. */
static int open_inotify(void) {
  enum { TRIES = 400, PAUSE_MS = 5 };
  for (int tries = 0;; tries++) {
    int inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (inotify >= 0 || errno != EMFILE || tries == TRIES) return inotify;
    (void)poll(NULL, 0, PAUSE_MS);
  }
}

static _Noreturn void run(int own_end) {
  if (dup2(own_end, CHANNEL) < 0) _exit(1);
  close_from(CHANNEL + 1);
  pid_one_child_goes_first();
  /* Without an instance every watch is refused with the reason. */
  int inotify = open_inotify();
  if (loop_start() != 0) _exit(1);
  watches_start(inotify, inotify < 0 ? errno : 0);
  watch_start(&requests, CHANNEL, requests_ready, NULL);
  watch_for(&requests, EPOLLIN);
  for (int64_t idle_since = clock_ms();;) {
    loop_turn(IDLE_MS);
    if (watches_count() > 0) idle_since = clock_ms();
    else if (requests.fd < 0) _exit(0);
    /* PID 1 lets go and starts another the next time; what a worker hands over until then is still served. */
    if (clock_ms() - idle_since >= IDLE_MS) (void)shutdown(requests.fd, SHUT_WR);
  }
}

static void watcher_leaves(void *owner, uint32_t events) {
  (void)owner;
  (void)events;
  watch_close(&channel);
}

static bool is_leaving(void) {
  struct pollfd end = {.fd = channel.fd, .events = POLLRDHUP};
  return poll(&end, 1, 0) != 0;
}

int watcher_channel(void) {
  if (channel.fd >= 0 && !is_leaving()) return channel.fd;
  watch_close(&channel);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return -1;
  pid_t pid = fork(); /* Reaped as any orphan: nobody waits for it. */
  if (pid == 0) run(ends[1]);
  close_fd(&ends[1]);
  watch_start(&channel, ends[0], watcher_leaves, NULL);
  if (pid < 0) watch_close(&channel);
  else watch_for(&channel, EPOLLRDHUP);
  return channel.fd;
}

void file_watch(int socket, int to) {
  uint64_t recursive = 0;
  if (!request_integer(FIELD_RECURSIVE, 0, 1, &recursive)) {
    answer_bad_request(socket, "recursive is out of range");
    return;
  }
  const char *path = request_path(FIELD_PATH);
  cleanup_fd root = open(path, O_PATH | O_CLOEXEC);
  if (root < 0) {
    answer_error(socket, errno, "watch");
    return;
  }
  static struct watch_request handover;
  handover = (struct watch_request){.uid = geteuid(), .gid = getegid(), .is_recursive = recursive == 1};
  memcpy(handover.path, path, strlen(path) + 1);
  int descriptors[2] = {socket, root};
  _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof descriptors)] = {0};
  struct iovec bytes = {.iov_base = &handover, .iov_len = sizeof handover};
  struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptors);
  memcpy(CMSG_DATA(header), descriptors, sizeof descriptors);
  while (sendmsg(to, &message, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    answer_error(socket, errno, "watch");
    return;
  }
  _exit(0); /* The connection is the watcher's: an orderly end would close it for both. */
}
