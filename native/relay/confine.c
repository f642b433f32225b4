/*
 * Giving up everything: the relay is forked by a process that may do anything in the daemon's namespaces.
 *
 * Order: the sandbox's network namespace while we may still enter it, limits, capabilities, id, and the filter
 * last. After the id changed the kernel has cleared the death signal, so that comes behind it.
 */
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "relay/filter.h"
#include "relay/relay.h"

/* A flood of packets must not take the processor from commands; an idle machine makes no difference. */
enum { RELAY_NICE = 5 };

static int limit_resources(void) {
  struct rlimit none = {0, 0};
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return -1;
  files.rlim_cur = files.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &files) != 0) return -1;
  return setrlimit(RLIMIT_CORE, &none) != 0 || setrlimit(RLIMIT_FSIZE, &none) != 0 ||
                 setrlimit(RLIMIT_NPROC, &none) != 0
             ? -1
             : 0;
}

static int drop_capabilities(void) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}, {0}};
  return (int)syscall(SYS_capset, &header, data);
}

static int become(const struct relay_identity *identity) {
  for (unsigned long capability = 0; capability < 64; capability++) {
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno == EINVAL) break;
  }
  if (!identity->keeps_id) {
    gid_t gid = identity->id;
    uid_t uid = identity->id;
    if (setgroups(0, NULL) != 0 || setresgid(gid, gid, gid) != 0 || setresuid(uid, uid, uid) != 0) return -1;
  }
  return drop_capabilities();
}

int relay_confine(const struct relay_identity *identity) {
  if (identity->network_fd >= 0) {
    if (setns(identity->network_fd, CLONE_NEWNET) != 0) return -1;
    close(identity->network_fd);
  }
  (void)setpriority(PRIO_PROCESS, 0, RELAY_NICE);
  (void)signal(SIGPIPE, SIG_IGN); /* splice knows no MSG_NOSIGNAL. */
  if (limit_resources() != 0 || become(identity) != 0) return -1;
  if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 ||
      prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return -1;
  }
  return filter_load();
}
