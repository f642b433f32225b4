/*
 * The gate of netlink sockets: see netlink_gate.h.
 *
 * It trusts nothing of the sandbox but three numbers of a call (common/netlink_share.h), and where programs make namespaces of their own
 * which of them the caller is in. It lives in no pid namespace of the sandbox, so nobody in there can reach it, and ends when the
 * last process behind its filter has ended. Where it is killed for want of memory, its sandbox has no netlink from then on.
 */
#include "launch/netlink_gate.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/netlink_share.h"
#include "launch/message.h"
#include "common/syscalls.h"
#include "launch/title.h"

enum {
  LISTENER = 3,
  /* The launcher's /proc: paths lead into the sandbox's root soon, whose /proc does not know us. */
  PROC,
  /* The sandbox's network namespace, where its programs may make others. */
  NETWORK,
};

/* The C libraries do not agree on the type of an ioctl's number. */
static int notify(unsigned long request, void *value) { return (int)syscall(SYS_ioctl, LISTENER, request, value); }

/* To enter a namespace that was made below the sandbox's, and to be obeyed there. */
static const unsigned entering[] = {CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_NET_ADMIN};

static int hold_capabilities(bool is_permitted, bool is_effective) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct held[2] = {{0}};
  for (size_t i = 0; i < sizeof entering / sizeof entering[0]; i++) {
    if (is_permitted) held[0].permitted |= UINT32_C(1) << entering[i];
    if (is_effective) held[0].effective |= UINT32_C(1) << entering[i];
  }
  return (int)syscall(SYS_capset, &header, held);
}

/* The caller stands still in his call: his namespace is the one that he asked in, as long as the call is there. */
static int open_network_of(const struct seccomp_notif *call) {
  char path[32];
  uint64_t id = call->id;
  snprintf(path, sizeof path, "%u/ns/net", call->pid);
  int network = openat(PROC, path, O_RDONLY | O_CLOEXEC);
  if (network >= 0 && notify(SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0) return network;
  close_fd(&network);
  return -1;
}

/*
 * A socket of the caller's own network namespace. In one that he made himself it may change things, if he may: the kernel asks for the
 * rights of who made the socket and of who uses it. In the sandbox's it is made without any.
 */
static int open_where_called(const struct seccomp_notif *call) {
  struct stat own;
  struct stat theirs;
  int type = (int)call->data.args[1] | SOCK_CLOEXEC;
  int protocol = (int)call->data.args[2];
  if (hold_capabilities(true, true) != 0) return -1;
  cleanup_fd network = open_network_of(call);
  bool is_found = network >= 0 && fstat(network, &theirs) == 0 && fstat(NETWORK, &own) == 0;
  bool is_other = is_found && (own.st_ino != theirs.st_ino || own.st_dev != theirs.st_dev);
  int made = -1;
  errno = EPERM;
  if (is_other && setns(network, CLONE_NEWNET) == 0) {
    made = socket(AF_NETLINK, type, protocol);
    if (setns(NETWORK, CLONE_NEWNET) != 0) _exit(1);
  }
  if (hold_capabilities(true, false) != 0) _exit(1);
  return is_found && !is_other ? socket(AF_NETLINK, type, protocol) : made;
}

static _Noreturn void serve(bool enters) {
  const struct netlink_share share = {
      .listener = LISTENER, .proc = PROC, .epoll = epoll_create1(EPOLL_CLOEXEC), .open = enters ? open_where_called : NULL};
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
  int network; /* -1: it enters none */
};

/* Lets go of the starter's descriptors and rights. The mount namespace is the sandbox's: nothing is opened by a path. */
static _Noreturn void gate_main(const struct gate *gate, const struct launcher *launcher) {
  char byte;
  int listener = -1;
  bool enters = gate->network >= 0;
  if (message_receive(gate->socket, &byte, 1, &listener) != 1 || listener < 0) _exit(0);
  prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
  setsid();
  title_set("squash-launch gate %s", launcher->data);
  const int kept[] = {listener, gate->proc, gate->network};
  int count = enters ? 3 : 2;
  for (int fd = 0; fd < 3; fd++) {
    if (dup2(gate->null, fd) < 0) _exit(1);
  }
  if (place_descriptors(kept, count) != 0 || sys_close_range(LISTENER + (unsigned)count, ~0U, 0) != 0 ||
      hold_capabilities(enters, false) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    _exit(1);
  }
  serve(enters);
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
  cleanup_fd network = plan->allows_nesting ? open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC) : -1;
  if (null < 0 || proc < 0 || (plan->allows_nesting && network < 0)) return fault_set(fault, "launch_failed", "can't open what the gate of netlink sockets needs");
  const struct gate gate = {.socket = other, .null = null, .proc = proc, .network = network};
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
