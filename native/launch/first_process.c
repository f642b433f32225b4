/*
 * What a sandbox's first process does before it is squash-init: see first_process.h.
 *
 * Capabilities (common/capabilities.h) count in the sandbox's own user namespace only.
 * squash-init narrows the bounding set to them; until then no_new_privs, which the launcher has set, holds the rest.
 */
#include "launch/first_process.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/capabilities.h"
#include "common/descriptor.h"
#include "launch/message.h"
#include "launch/nesting.h"
#include "launch/new_root.h"
#include "launch/seccomp.h"
#include "launch/title.h"

enum { PLACED_LISTEN = 3, PLACED_INIT, PLACED_END };
#define INIT_PATH "/proc/self/fd/4"
#define LISTEN_WORD "3"

/* What PID 1 of a box with one id needs to keep through its execve; it gives it up as ambient there (native/common/pid_one.c). */
static int keep_capabilities(void) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct kept[2];
  if (syscall(SYS_capget, &header, kept) != 0) return -1;
  for (unsigned i = 0; i < 2; i++) kept[i].inheritable = kept[i].permitted;
  if (syscall(SYS_capset, &header, kept) != 0) return -1;
  for (size_t i = 0; i < SANDBOX_CAPABILITIES; i++) {
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, sandbox_capabilities[i], 0, 0) != 0) return -1;
  }
  return 0;
}

static size_t read_filter(int file, struct sock_filter program[SECCOMP_PROGRAM_MAX]) {
  ssize_t bytes = pread(file, program, SECCOMP_PROGRAM_MAX * sizeof program[0], 0);
  return bytes <= 0 ? 0 : (size_t)bytes / sizeof program[0];
}

static int load_filter(int file, const struct seccomp_options *options) {
  struct sock_filter program[SECCOMP_PROGRAM_MAX];
  bool is_own = options->permits_listener || options->permits_filter || options->permits_nesting || options->permits_own_filters;
  size_t count = is_own ? seccomp_build(program, SECCOMP_PROGRAM_MAX, options) : read_filter(file, program);
  struct sock_fprog whole = {.len = (unsigned short)count, .filter = program};
  if (count == 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  if ((options->permits_nesting || options->permits_own_filters) && nesting_use_up_filters() != 0) return -1;
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole);
}

/* Nothing of the launcher's stays but the sandbox's socket, the program of PID 1, and until that has begun its stderr. */
static int place_all(const struct starter_plan *plan, const struct supply *supply) {
  const int descriptors[] = {supply->listen_fd, supply->request.is_vmm ? plan->vmm_fd : plan->init_fd};
  cleanup_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0) return -1;
  return place_descriptors(descriptors, PLACED_END - PLACED_LISTEN);
}

static int limit_files(const struct request *request) {
  /* PID 1 keeps a descriptor or more per connection; commands get their own, lower limit from it. */
  rlim_t files = request->open_files_max < 16384 ? 16384 : (rlim_t)request->open_files_max;
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return -1;
  if (files < limit.rlim_max) limit.rlim_max = files;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return -1;
  if (request->upper_kind != UPPER_DIRECTORY || request->bytes_max == 0) return 0;
  /* Where only accounting limits the upper, one file at least can't grow past it in a single stroke. */
  limit = (struct rlimit){request->bytes_max, request->bytes_max};
  return setrlimit(RLIMIT_FSIZE, &limit);
}

/* A sandbox that nobody knows of must not run. */
static bool has_launcher(void) {
  struct pollfd launcher = {.fd = STDERR_FILENO, .events = 0};
  return poll(&launcher, 1, 0) == 0;
}

/* Whether it writes what is the host's as somebody of the host: a box does at its places, and in single-id mode whoever has a directory of it. */
static bool writes_host(const struct launcher *launcher, const struct request *request) {
  for (size_t i = 0; i < request->mount_count; i++) {
    const struct mount_wish *wish = &request->mounts[i];
    bool is_place = wish->place == PLACE_BIND;
    bool is_hosts = is_place || (wish->place == PLACE_NONE && wish->is_host);
    if (is_hosts && wish->is_writable && (launcher->is_single || (is_place && request->is_box))) return true;
  }
  return false;
}

static int become_init(const struct launcher *launcher, const struct starter_plan *plan, const struct supply *supply,
                       struct fault *fault) {
  char option[] = "--listen-fd";
  char path[] = INIT_PATH;
  char listen[] = LISTEN_WORD;
  char trace[] = "--trace-paths";
  char no_set_id[] = "--no-set-id";
  char own_filters[] = "--own-filters";
  bool is_writer = writes_host(launcher, &supply->request);
  const struct seccomp_options options = {.permits_listener = supply->request.traces_paths,
                                          .permits_filter = is_writer && !supply->request.is_vmm,
                                          .permits_nesting = plan->allows_nesting,
                                          .permits_group_namespaces = plan->allows_group_namespaces,
                                          .permits_own_filters = supply->request.is_vmm};
  char *words[] = {path, option, listen, NULL, NULL, NULL, NULL};
  size_t count = 3;
  if (options.permits_listener) words[count++] = trace;
  if (is_writer) words[count++] = no_set_id;
  if (options.permits_nesting) words[count++] = own_filters;
  char *const environment[] = {NULL};
  if (!has_launcher()) _exit(1);
  if (limit_files(&supply->request) != 0) return fault_set(fault, "launch_failed", "can't set resource limits");
  if (options.permits_nesting && nesting_try(fault) != 0) return -1;
  if (capabilities_drop() != 0 || (getuid() != 0 && keep_capabilities() != 0)) {
    return fault_set(fault, "launch_failed", "can't drop capabilities");
  }
  int filter = fcntl(plan->seccomp_fd, F_DUPFD_CLOEXEC, 128);
  if (filter < 0 || place_all(plan, supply) != 0) return fault_set(fault, "launch_failed", "can't place the descriptors of a start");
  if (load_filter(filter, &options) != 0) return fault_set(fault, "launch_failed", "can't load the filter of system calls");
  execve(path, words, environment);
  return fault_set(fault, "launch_failed", "can't execute the program of PID 1");
}

static int run(const struct launcher *launcher, const struct starter_plan *plan, struct supply *assembled,
               struct fault *fault) {
  static struct supply own;
  struct supply *supply = assembled == NULL ? &own : assembled;
  if (setsid() < 0 || new_root_prepare(launcher, plan, fault) != 0) return -1;
  if (assembled == NULL && (supply_receive(plan->supply_fd, supply, fault) != 0 ||
                            new_root_assemble(launcher, plan, supply, fault) != 0)) {
    return -1;
  }
  const char *hostname = supply->request.hostname;
  if (sethostname(hostname, strlen(hostname)) != 0) return fault_set(fault, "launch_failed", "can't set the host name");
  return new_root_enter(supply, fault) != 0 ? -1 : become_init(launcher, plan, supply, fault);
}

_Noreturn void first_process_main(const struct launcher *launcher, const struct starter_plan *plan,
                                  struct supply *assembled) {
  struct starter_message message = {.word = STARTER_FAILED};
  if (dup2(plan->control_fd, STDERR_FILENO) < 0) _exit(1); /* Other descriptors change their places on the way. */
  title_set("squash-launch spare %s", launcher->data); /* Until squash-init. */
  (void)run(launcher, plan, assembled, &message.fault);
  (void)message_send(STDERR_FILENO, &message, sizeof message, NULL, 0);
  _exit(1);
}
