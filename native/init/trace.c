/* The tracer's thread, and what commands and the daemon have to do with it: see trace.h. */
#include "init/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/netlink_share.h"
#include "init/trace_calls.h"
#include "init/trace_set.h"

/* <linux/seccomp.h> of 6.6. */
#define SET_FLAGS SECCOMP_IOW(4, uint64_t)
#define SYNC_WAKE_UP 1
/* Of 5.19: a signal no longer interrupts a call that is with us. Until we have it, and before 5.19, a handler without SA_RESTART
   makes it EINTR, which some programs expect of no call with a path. */
#define WAIT_KILLABLE (1UL << 5)

static bool is_wanted;
static bool is_started;
static int channel[2] = {-1, -1}; /* listeners go from 1 to 0 */

/* Of the thread. */
static int polled = -1;
static int netlink = -1; /* netlink_share.h */
static int proc = -1;
static struct {
  uid_t uid;
  gid_t gid;
} user;
static pid_t caller;

void trace_want(void) {
  is_wanted = true;
}

/* ---- The thread */

/* The C library's function takes an int, where these have all 32 bits. */
static long control(int listener, unsigned long command, const void *argument) {
  return syscall(SYS_ioctl, listener, command, argument);
}

/* Bytes of the caller's memory: as many as are there, for a path may end just before a page that is not. */
static ssize_t read_caller(uint64_t address, void *into, size_t length) {
  size_t in_page = 4096 - (size_t)(address % 4096);
  if (in_page > length) in_page = length;
  struct iovec local = {.iov_base = into, .iov_len = length};
  struct iovec remote[2] = {{.iov_base = (void *)(uintptr_t)address, .iov_len = in_page},
                            {.iov_base = (void *)(uintptr_t)(address + in_page), .iov_len = length - in_page}};
  return process_vm_readv(caller, &local, 1, remote, length > in_page ? 2 : 1, 0);
}

static bool read_u64(uint64_t address, uint64_t *value) {
  return read_caller(address, value, sizeof *value) == (ssize_t)sizeof *value;
}

/* The directory that a relative path starts from, as the caller has it. */
static bool read_directory(int32_t directory, char out[GUEST_PATH_BYTES_MAX]) {
  char link[64];
  if (directory == AT_FDCWD) (void)snprintf(link, sizeof link, "/proc/%d/cwd", (int)caller);
  else (void)snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)caller, (int)directory);
  ssize_t length = readlink(link, out, GUEST_PATH_BYTES_MAX - 1);
  if (length <= 0) return false;
  out[length] = '\0';
  return true;
}

/* False: there is no path, as where a call is about an open file, or it is none that we can read. */
static bool read_path(const struct trace_wish *wish, char out[GUEST_PATH_BYTES_MAX]) {
  static char raw[GUEST_PATH_BYTES_MAX];
  static char base[GUEST_PATH_BYTES_MAX];
  if (wish->path == 0) return false;
  ssize_t got = read_caller(wish->path, raw, sizeof raw);
  if (got <= 0 || raw[0] == '\0' || memchr(raw, '\0', (size_t)got) == NULL) return false;
  base[0] = '\0';
  if (raw[0] != '/' && !read_directory(wish->directory, base)) return false;
  return trace_path_join(base, raw, out);
}

static bool is_there(const char *path, bool follows_link) {
  struct stat stat;
  return fstatat(AT_FDCWD, path, &stat, follows_link ? 0 : AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_parent_writable(const char *path) {
  static char parent[GUEST_PATH_BYTES_MAX];
  const char *slash = strrchr(path, '/');
  size_t length = slash == NULL ? 0 : (size_t)(slash - path);
  memcpy(parent, path, length);
  if (length == 0) parent[length++] = '/';
  parent[length] = '\0';
  return access(parent, W_OK | X_OK) == 0;
}

/* Whether the call is likely to succeed: we see the same files, and access() asks for the real user, who is the command's. */
static bool is_granted(const struct trace_wish *wish, const char *path) {
  switch (wish->need) {
    case NEED_LOOK: return is_there(path, wish->follows_link);
    case NEED_READ: return access(path, R_OK) == 0;
    case NEED_EXECUTE: return access(path, X_OK) == 0;
    case NEED_WRITE: return access(path, W_OK) == 0;
    case NEED_MAKE: return is_parent_writable(path);
    case NEED_MAKE_OR_WRITE: return is_there(path, true) ? access(path, R_OK) == 0 && access(path, W_OK) == 0 : is_parent_writable(path);
    case NEED_REMOVE: return is_there(path, false) && is_parent_writable(path);
  }
  return true;
}

static enum path_intent intent_of(enum trace_need need) {
  if (need == NEED_LOOK) return INTENT_LOOK;
  if (need == NEED_READ) return INTENT_READ;
  return need == NEED_EXECUTE ? INTENT_EXECUTE : INTENT_WRITE;
}

static uint64_t now_us(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_REALTIME, &now); /* Can't fail for this clock. */
  return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void note(int listener, const struct seccomp_notif *notice) {
  static char path[GUEST_PATH_BYTES_MAX];
  struct trace_wish wishes[TRACE_WISHES_MAX];
  uint64_t id = notice->id;
  caller = (pid_t)notice->pid;
  unsigned count = trace_wishes(&notice->data, read_u64, wishes);
  for (unsigned i = 0; i < count; i++) {
    if (!read_path(&wishes[i], path)) continue;
    /* Else the number may be another process's by now, and the path its. */
    if (control(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) != 0) return;
    enum path_intent intent = intent_of(wishes[i].need);
    if (trace_set_has(path, intent) || is_granted(&wishes[i], path)) continue;
    trace_set_add(path, intent, now_us());
  }
}

static void serve(int listener) {
  /* Zeroed, as the kernel wants it. One that was ended meanwhile is ENOENT, of the answer as well, and nobody waits. */
  struct seccomp_notif notice = {0};
  if (control(listener, SECCOMP_IOCTL_NOTIF_RECV, &notice) != 0) return;
  if (notice.data.nr == SYS_socket) {
    const struct netlink_share share = {.listener = listener, .proc = proc, .epoll = netlink};
    netlink_share_answer(&share, &notice);
    return;
  }
  note(listener, &notice);
  struct seccomp_notif_resp answer = {.id = notice.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
  (void)control(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

static void take_listener(void) {
  uint8_t byte;
  int listener;
  _Alignas(struct cmsghdr) char ancillary[CMSG_SPACE(sizeof listener)];
  struct iovec bytes = {.iov_base = &byte, .iov_len = 1};
  struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = ancillary, .msg_controllen = sizeof ancillary};
  if (recvmsg(channel[0], &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0) return;
  const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  /* Out of descriptors the kernel has closed it: its command gets ENOSYS, and does not start. */
  if (header == NULL || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof listener)) return;
  memcpy(&listener, CMSG_DATA(header), sizeof listener);
  (void)control(listener, SET_FLAGS, (void *)SYNC_WAKE_UP); /* Faster, where the kernel knows it. */
  struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
  if (epoll_ctl(polled, EPOLL_CTL_ADD, listener, &event) != 0) (void)close(listener);
}

/* Only for this thread: the C library's functions would change all of them. What it may not leave is refused at the reading. */
static void become_user(void) {
  (void)syscall(SYS_setgroups, 0, NULL);
  (void)syscall(SYS_setresgid, user.gid, user.gid, user.gid);
  (void)syscall(SYS_setresuid, user.uid, user.uid, user.uid);
}

static void *run(void *unused) {
  (void)prctl(PR_SET_NAME, "squash-trace");
  (void)unused;
  enum { BATCH = 32 };
  struct epoll_event events[BATCH];
  become_user();
  for (;;) {
    int count = epoll_wait(polled, events, BATCH, -1);
    for (int i = 0; i < count; i++) {
      int fd = events[i].data.fd;
      if (fd == channel[0]) take_listener();
      else if ((events[i].events & EPOLLIN) != 0) serve(fd);
      else (void)close(fd); /* Nobody is left who has this filter. */
    }
  }
  return NULL;
}

/* ---- PID 1 and its commands */

int trace_start(uid_t uid, gid_t gid) {
  if (!is_wanted || is_started) return 0;
  user.uid = uid;
  user.gid = gid;
  if (channel[0] < 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) != 0) return errno;
  if (polled < 0) polled = epoll_create1(EPOLL_CLOEXEC);
  if (netlink < 0) netlink = epoll_create1(EPOLL_CLOEXEC);
  if (proc < 0) proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = channel[0]};
  if (polled < 0 || netlink < 0 || proc < 0 || (epoll_ctl(polled, EPOLL_CTL_ADD, channel[0], &event) != 0 && errno != EEXIST)) return errno;
  pthread_t thread;
  int failure = pthread_create(&thread, NULL, run, NULL);
  if (failure != 0) return failure;
  (void)pthread_detach(thread);
  is_started = true;
  return 0;
}

bool trace_is_on(void) { return is_started; }

bool trace_keep_channel(int fd) {
  if (!is_started) return false;
  if (channel[1] != fd) (void)dup3(channel[1], fd, O_CLOEXEC);
  return true;
}

static int send_listener(int to, int listener) {
  uint8_t byte = 0;
  _Alignas(struct cmsghdr) char ancillary[CMSG_SPACE(sizeof listener)] = {0};
  struct iovec bytes = {.iov_base = &byte, .iov_len = 1};
  struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1, .msg_control = ancillary, .msg_controllen = sizeof ancillary};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof listener);
  memcpy(CMSG_DATA(header), &listener, sizeof listener);
  ssize_t sent;
  do sent = sendmsg(to, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent < 0 ? -1 : 0;
}

static int load(unsigned long flags) {
  struct sock_filter program[TRACE_PROGRAM_MAX];
  struct sock_fprog whole = {.len = (unsigned short)trace_program(program), .filter = program};
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER | flags, &whole);
}

int trace_begin(int to) {
  cleanup_fd own_channel = to;
  cleanup_fd listener = load(WAIT_KILLABLE);
  if (listener < 0 && errno == EINVAL) listener = load(0);
  return listener < 0 ? -1 : send_listener(own_channel, listener);
}
