/*
 * The gate of netlink sockets: see netlink_gate.h.
 *
 * It trusts nothing of the sandbox but three numbers of a call (common/netlink_share.h). It lives in no pid namespace of
 * the sandbox, so nobody in there can reach it, and ends when the last process behind its filter has ended. Where it is
 * killed for want of memory, its sandbox has no netlink from then on.
 */
#include "launch/netlink_gate.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/netlink_share.h"
#include "launch/message.h"
#include "launch/syscalls.h"
#include "launch/title.h"

enum {
  LISTENER = 3,
  /* The launcher's /proc: paths lead into the sandbox's root soon, whose /proc does not know us. */
  PROC,
};

/* The C libraries do not agree on the type of an ioctl's number. */
static int notify(unsigned long request, void *value) { return (int)syscall(SYS_ioctl, LISTENER, request, value); }

static _Noreturn void serve(void) {
  const struct netlink_share share = {.listener = LISTENER, .proc = PROC, .epoll = epoll_create1(EPOLL_CLOEXEC)};
  struct pollfd wait = {.fd = LISTENER, .events = POLLIN};
  for (;;) {
    if (share.epoll < 0 || (poll(&wait, 1, -1) < 0 && errno != EINTR)) _exit(1);
    if ((wait.revents & POLLIN) == 0) _exit(0); /* Nobody is left behind the filter. */
    struct seccomp_notif call = {0};
    if (notify(SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) continue;
    netlink_share_answer(&share, &call);
  }
}

struct gate {
  int socket; /* over which its listener comes */
  int null;
  int proc;
};

/* Lets go of the starter's descriptors and rights. The mount namespace is the sandbox's: nothing is opened by a path. */
static _Noreturn void gate_main(const struct gate *gate, const struct launcher *launcher) {
  char byte;
  int listener = -1;
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct none[2] = {{0}};
  if (message_receive(gate->socket, &byte, 1, &listener) != 1 || listener < 0) _exit(0);
  prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
  setsid();
  title_set("squash-launch gate %s", launcher->data);
  const int kept[] = {listener, gate->proc};
  for (int fd = 0; fd < 3; fd++) {
    if (dup2(gate->null, fd) < 0) _exit(1);
  }
  if (place_descriptors(kept, 2) != 0 || sys_close_range(PROC + 1, ~0U, 0) != 0 ||
      syscall(SYS_capset, &header, none) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    _exit(1);
  }
  serve();
}

/* The main filter refuses all other protocols of the family before this one's answer counts. */
static int install(void) {
  struct sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog whole = {sizeof program / sizeof program[0], program};
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &whole);
}

int netlink_gate_start(const struct launcher *launcher, const struct starter_plan *plan, struct fault *fault) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return fault_set(fault, "launch_failed", "can't make a socket pair");
  }
  cleanup_fd own = pair[0];
  cleanup_fd other = pair[1];
  cleanup_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
  cleanup_fd proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (null < 0 || proc < 0) return fault_set(fault, "launch_failed", "can't open what the gate of netlink sockets needs");
  const struct gate gate = {.socket = other, .null = null, .proc = proc};
  struct starter_message message = {.word = STARTER_GATE_PID, .pid = fork()};
  if (message.pid == 0) {
    close_fd(&own);
    gate_main(&gate, launcher);
  }
  if (message.pid < 0 || message_send(plan->control_fd, &message, sizeof message, NULL, 0) != 0) {
    return fault_set(fault, "launch_failed", "can't start the gate of netlink sockets");
  }
  cleanup_fd listener = install();
  if (listener < 0) return 0; /* The gate sees its socket close and ends. */
  if (message_send(own, "k", 1, &listener, 1) == 0) return 0;
  return fault_set(fault, "launch_failed", "the gate of netlink sockets is gone");
}
