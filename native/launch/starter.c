/*
 * The child that makes a sandbox: see starter.h.
 *
 * Order and reason. The cgroup is joined while we have the launcher's id (version 1 asks for it). Then the id is given up for good, before the
 * user namespace is made: the id that makes it is its owner, and the owner must not be the daemon's. The network is
 * made with rights that the first process gives up (first_process.c), and so is the new root (new_root.c).
 */
#include "launch/starter.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/become.h"
#include "launch/devices.h"
#include "common/file.h"
#include "launch/first_process.h"
#include "launch/ids.h"
#include "launch/message.h"
#include "launch/nesting.h"
#include "launch/netlink_gate.h"
#include "launch/network.h"
#include "launch/new_root.h"
#include "common/syscalls.h"
#include "launch/supply.h"

enum {
  /* Queued signals and POSIX timers, which count as one each: programs use tens. The host has 4 per MiB of memory. */
  SIGNALS_MAX = 4096,
  /* Bytes in POSIX message queues: a quarter of what the kernel gives one user, which is all sandboxes together. */
  QUEUE_BYTES_MAX = 204800,
};

static int say(int control, const struct starter_message *message, int descriptor) {
  return message_send(control, message, sizeof *message, &descriptor, descriptor < 0 ? 0 : 1);
}

/* The namespace's listeners go to the launcher, which keeps them for the sandbox's life. */
static int make_network(int control, struct fault *fault) {
  struct network network;
  if (network_set_up(&network) != 0) return fault_set(fault, "launch_failed", "can't bring up the sandbox's loopback");
  struct starter_message message = {.word = STARTER_NETWORK};
  snprintf(message.fault.text, sizeof message.fault.text, "%s", network.warning);
  if (message_send(control, &message, sizeof message, network.listeners, network.listener_count) != 0) {
    return fault_set(fault, "launch_failed", "the launcher does not listen to its child");
  }
  for (unsigned i = 0; i < network.listener_count; i++) close(network.listeners[i]);
  return 0;
}

static int ask(int control, enum starter_word word, struct fault *fault) {
  struct starter_message message = {.word = word};
  char byte;
  if (say(control, &message, -1) == 0 && read_whole(control, &byte, 1) == 1) return 0;
  return fault_set(fault, "launch_failed", "the launcher does not answer its child");
}

static struct rlimit lowered(struct rlimit limit, rlim_t max) {
  if (limit.rlim_max > max) limit.rlim_max = max;
  limit.rlim_cur = limit.rlim_max;
  return limit;
}

/* Counted by the kernel over the whole user namespace made below; root inside can't raise them. Lowering only. */
static int limit_counted(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_SIGPENDING, &limit) != 0) return -1;
  limit = lowered(limit, SIGNALS_MAX);
  if (setrlimit(RLIMIT_SIGPENDING, &limit) != 0 || getrlimit(RLIMIT_MSGQUEUE, &limit) != 0) return -1;
  limit = lowered(limit, QUEUE_BYTES_MAX);
  if (setrlimit(RLIMIT_MSGQUEUE, &limit) != 0) return -1;
  if (getrlimit(RLIMIT_CORE, &limit) != 0) return -1;
  limit = lowered(limit, 1); /* No core file, and with exactly 1 no handler of the host's: native/common/pid_one.c. */
  return setrlimit(RLIMIT_CORE, &limit);
}

/* A service manager protects the daemon by a low score; a sandbox must not inherit that. Raising is always allowed. */
static void reset_oom_score(void) {
  char score[16];
  if (text_file_read(AT_FDCWD, "/proc/self/oom_score_adj", score, sizeof score) > 0 && score[0] == '-') {
    (void)text_file_write(AT_FDCWD, "/proc/self/oom_score_adj", "0");
  }
}

/*
 * The id that makes the sandbox's user namespace. What the kernel counts per user is counted against it as well, so
 * sandboxes with a maker of their own can't use up each other's share. Being the maker gives rights only to who
 * has that id in the daemon's namespace, where nobody does.
 */
static uid_t maker_id(const struct launcher *launcher, uint64_t number) {
  return launcher->is_single ? 0 : (uid_t)(1 + number % (SANDBOX_IDS - 1)); /* The last is the relays'. */
}

static int become_sandbox_root(const struct launcher *launcher, const struct starter_plan *plan, struct fault *fault) {
  /* Where a box has one id only, that is its user's. */
  bool is_user = plan->is_box && launcher->is_single;
  uid_t user = is_user ? plan->user : 0;
  gid_t group = is_user ? plan->group_id : 0;
  if (setresgid(group, group, group) != 0 || setresuid(user, user, user) != 0) {
    return fault_set(fault, "launch_failed", "can't become root of the sandbox");
  }
  return become_inner_id(0, fault);
}

/*
 * Where no group counts processes, their owner's limit does: a fork bomb must not take the machine along. Before the
 * namespace is made the limit holds for all ids in it together, because its maker is its own; in single-id mode the
 * maker is everybody's, but there is one id inside. Older kernels count by the host's id, across sandboxes: not there.
 */
static int limit_processes(const struct launcher *launcher, const struct starter_plan *plan) {
  struct utsname system;
  unsigned major = 0;
  unsigned minor = 0;
  if (launcher->cgroups.has[CGROUP_PIDS] || plan->pids_max == 0 || uname(&system) != 0) return 0;
  if (sscanf(system.release, "%u.%u", &major, &minor) != 2 || major < 5 || (major == 5 && minor < 14)) return 0;
  struct rlimit limit;
  if (getrlimit(RLIMIT_NPROC, &limit) != 0) return -1;
  if (limit.rlim_max > plan->pids_max) limit.rlim_max = (rlim_t)plan->pids_max;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NPROC, &limit);
}

/* Made in one call: the others belong to the first. The pid namespace comes last, for our next child becomes its PID 1. */
static int make_namespaces(void) {
  int flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
  if (access("/proc/self/ns/cgroup", F_OK) == 0) flags |= CLONE_NEWCGROUP; /* A kernel may have no groups at all. */
  return unshare(flags);
}

/* Nothing of the launcher's goes along but this: a descriptor kept open somewhere is an end that nobody sees. */
static int keep_descriptors(struct starter_plan *plan) {
  int *const kept[] = {&plan->control_fd, &plan->supply_fd, &plan->init_fd, &plan->vmm_fd, &plan->seccomp_fd, &plan->devices_fd};
  enum { FIRST = 3, COUNT = sizeof kept / sizeof kept[0] };
  /* Until they are the sandbox's own (first_process.c): the launcher has its log there. */
  cleanup_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0) return -1;
  int from[COUNT];
  int count = plan->devices_fd < 0 ? COUNT - 1 : COUNT;
  for (int i = 0; i < count; i++) from[i] = *kept[i];
  if (place_descriptors(from, count) != 0) return -1;
  for (int i = 0; i < count; i++) {
    *kept[i] = FIRST + i;
    if (set_close_on_exec(FIRST + i, true) != 0) return -1;
  }
  return sys_close_range((unsigned)(FIRST + count), ~0U, 0);
}

static int begin(const struct launcher *launcher, struct starter_plan *plan, struct fault *fault) {
  if (cgroup_join(&launcher->cgroups, plan->group, fault) != 0 ||
      devices_gather(launcher, plan->root_id, &plan->devices_fd, fault) != 0) {
    return -1;
  }
  plan->allows_group_namespaces = plan->allows_nesting && nesting_allows_group_namespaces(&launcher->cgroups, plan->group);
  reset_oom_score();
  if (limit_counted() != 0) return fault_set(fault, "launch_failed", "can't set resource limits");
  if (keep_descriptors(plan) != 0) return fault_set(fault, "launch_failed", "can't place the descriptors of a start");
  if (become_inner_id(maker_id(launcher, plan->number), fault) != 0) return -1;
  if (!launcher->is_single && limit_processes(launcher, plan) != 0) return fault_set(fault, "launch_failed", "can't limit processes");
  if (make_namespaces() != 0) return fault_set(fault, "launch_failed", "can't make the sandbox's namespaces");
  if (ask(plan->control_fd, STARTER_NEEDS_MAPS, fault) != 0 || become_sandbox_root(launcher, plan, fault) != 0) return -1;
  if (launcher->is_single && limit_processes(launcher, plan) != 0) return fault_set(fault, "launch_failed", "can't limit processes");
  return 0;
}

/* fuse-overlayfs has to be started here, where no pid namespace of the sandbox is yet. */
static int start(const struct launcher *launcher, struct starter_plan *plan, struct fault *fault) {
  static struct supply supply;
  bool by_fuse = launcher->overlays_by_fuse;
  if (begin(launcher, plan, fault) != 0 || make_network(plan->control_fd, fault) != 0 ||
      (!plan->traces_paths && netlink_gate_start(launcher, plan, fault) != 0) || new_root_begin(fault) != 0) {
    return -1;
  }
  if (by_fuse && (supply_receive(plan->supply_fd, &supply, fault) != 0 ||
                  new_root_assemble(launcher, plan, &supply, fault) != 0)) {
    return -1;
  }
  if (unshare(CLONE_NEWPID) != 0) return fault_set(fault, "launch_failed", "can't make the sandbox's pid namespace");
  struct starter_message message = {.word = STARTER_FIRST_PID, .pid = fork()};
  if (message.pid == 0) first_process_main(launcher, plan, by_fuse ? &supply : NULL);
  if (message.pid > 0 && say(plan->control_fd, &message, -1) == 0) return 0;
  return fault_set(fault, "launch_failed", "can't fork the sandbox's first process");
}

_Noreturn void starter_main(const struct launcher *launcher, struct starter_plan *plan) {
  struct fault fault = {0};
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  setsid();
  umask(022);
  if (start(launcher, plan, &fault) == 0) _exit(0);
  struct starter_message message = {.word = STARTER_FAILED, .fault = fault};
  (void)say(plan->control_fd, &message, -1);
  _exit(1);
}
