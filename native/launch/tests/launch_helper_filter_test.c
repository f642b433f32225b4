/*
 * The privileged helper's allow list: what a hijacked one asks of the kernel beyond it is not there, whoever asks; what
 * mkfs.ext4 of this machine does is. The attack test runs all verbs under it.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/helper_verbs.h"
#include "tests/check.h"

static const struct {
  const char *name;
  long number;
  long words[6];
  int error;
} attempts[] = {
    {"socket", __NR_socket, {AF_INET, SOCK_STREAM}, ENOSYS},
    {"connect", __NR_connect, {-1}, ENOSYS},
    {"bind", __NR_bind, {-1}, ENOSYS},
    {"socketpair of another family", __NR_socketpair, {AF_INET, SOCK_STREAM}, EPERM},
    {"ptrace", __NR_ptrace, {-1}, ENOSYS},
    {"process_vm_readv", __NR_process_vm_readv, {1}, ENOSYS},
    {"kill to stop", __NR_kill, {999999999, SIGSTOP}, EPERM},
    {"tgkill", __NR_tgkill, {1, 1, 0}, ENOSYS},
    {"pidfd_send_signal", 424, {-1}, ENOSYS},
    {"pidfd_open", 434, {1}, ENOSYS},
    {"setuid", __NR_setuid, {0}, ENOSYS},
    {"setresuid", __NR_setresuid, {-1, -1, -1}, ENOSYS},
    {"capset", __NR_capset, {0}, ENOSYS},
    {"mount", __NR_mount, {0}, ENOSYS},
    {"umount2", __NR_umount2, {0}, ENOSYS},
    {"move_mount", 429, {-1}, ENOSYS},
    {"open_tree", 428, {-1}, ENOSYS},
    {"pivot_root", __NR_pivot_root, {0}, ENOSYS},
    {"chroot", __NR_chroot, {0}, ENOSYS},
    {"unshare", __NR_unshare, {CLONE_NEWNS}, ENOSYS},
    {"setns of a mount namespace", __NR_setns, {-1, CLONE_NEWNS}, EPERM},
    {"setns of anything", __NR_setns, {-1, 0}, EPERM},
    {"clone with a namespace", __NR_clone, {CLONE_NEWNET | SIGCHLD}, EPERM},
    {"clone3", 435, {0}, ENOSYS},
    {"io_uring_setup", 425, {0}, ENOSYS},
    {"bpf", __NR_bpf, {-1}, ENOSYS},
    {"perf_event_open", __NR_perf_event_open, {0}, ENOSYS},
    {"init_module", __NR_init_module, {0}, ENOSYS},
    {"kexec_load", __NR_kexec_load, {0}, ENOSYS},
    {"reboot", __NR_reboot, {0}, ENOSYS},
    {"settimeofday", __NR_settimeofday, {0}, ENOSYS},
    {"sethostname", __NR_sethostname, {0}, ENOSYS},
    {"keyctl", __NR_keyctl, {-1}, ENOSYS},
    {"open_by_handle_at", __NR_open_by_handle_at, {-1}, ENOSYS},
    {"symlinkat", __NR_symlinkat, {0}, ENOSYS},
    {"linkat", __NR_linkat, {0}, ENOSYS},
    {"setxattr", __NR_setxattr, {0}, ENOSYS},
    {"seccomp", __NR_seccomp, {-1}, ENOSYS},
    {"prctl to be traced", __NR_prctl, {PR_SET_DUMPABLE, 1}, EINVAL},
    {"words in a terminal", __NR_ioctl, {0, TIOCSTI}, ENOTTY},
    {"an unknown call", 400000, {0}, ENOSYS},
};

/* Says by its exit code which attempt was not refused as it has to be. */
static void attempt_all(void) {
  struct fault fault;
  if (helper_filter_load(&fault) != 0) _exit(255);
  for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
    const long *word = attempts[i].words;
    errno = 0;
    long got = syscall(attempts[i].number, word[0], word[1], word[2], word[3], word[4], word[5]);
    if (got != -1 || errno != attempts[i].error) _exit((int)i + 1);
  }
  _exit(0);
}

static void make_image(void) {
  struct fault fault;
  char path[32];
  int image = memfd_create("image", 0);
  if (helper_filter_load(&fault) != 0 || image < 0 || ftruncate(image, 1 << 24) != 0) _exit(255);
  snprintf(path, sizeof path, "/proc/self/fd/%d", image);
  execl("/usr/sbin/mkfs.ext4", "mkfs.ext4", "-q", "-F", "-E", "nodiscard", path, (char *)NULL);
  _exit(127);
}

static int status_of(void (*act)(void)) {
  int status = -1;
  pid_t child = fork();
  if (child == 0) act();
  CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status);
}

int main(void) {
  int failed = status_of(attempt_all);
  CHECK_NAMED(failed == 0, failed == 0 || failed == 255 ? "the filter" : attempts[failed - 1].name);
  if (access("/usr/sbin/mkfs.ext4", X_OK) == 0) CHECK(status_of(make_image) == 0);
  return check_summary();
}
