/* The filter of boxes that write places of the host: no call gives a file a set-uid or set-gid bit. */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/set_id.h"
#include "tests/check.h"

static struct sock_filter program[SET_ID_PROGRAM_MAX];

/* What the kernel would do of it: loads, comparisons, returns. */
static uint32_t run(long number, uint64_t first, uint64_t second, uint64_t third, uint64_t fourth) {
  struct seccomp_data data = {.nr = (int)number, .args = {first, second, third, fourth}};
  size_t length = set_id_program(program);
  uint32_t value = 0;
  for (size_t at = 0; at < length; at++) {
    const struct sock_filter *step = &program[at];
    if (step->code == (BPF_RET | BPF_K)) return step->k;
    if (step->code == (BPF_LD | BPF_W | BPF_ABS)) memcpy(&value, (const uint8_t *)&data + step->k, sizeof value);
    else if (step->code == (BPF_JMP | BPF_JSET | BPF_K)) at += (value & step->k) != 0 ? step->jt : step->jf;
    else at += value == step->k ? step->jt : step->jf;
  }
  return 0;
}

static void check_mode(uint64_t mode, uint32_t answer) {
  CHECK(run(SYS_fchmod, 3, mode, 0, 0) == answer);
  CHECK(run(SYS_fchmodat, 3, 7, mode, 0) == answer);
  CHECK(run(452, 3, 7, mode, 0) == answer);
  CHECK(run(SYS_mknodat, 3, 7, mode, 0) == answer);
  CHECK(run(SYS_openat, 3, 7, O_WRONLY | O_CREAT, mode) == answer);
  CHECK(run(SYS_openat, 3, 7, O_RDWR | O_TMPFILE, mode) == answer);
  CHECK(run(SYS_openat, 3, 7, O_RDONLY | O_DIRECTORY, mode) == SECCOMP_RET_ALLOW);
#ifdef SYS_open
  CHECK(run(SYS_chmod, 7, mode, 0, 0) == answer);
  CHECK(run(SYS_creat, 7, mode, 0, 0) == answer);
  CHECK(run(SYS_mknod, 7, mode, 0, 0) == answer);
  CHECK(run(SYS_open, 7, O_WRONLY | O_CREAT, mode, 0) == answer);
  CHECK(run(SYS_open, 7, O_RDWR | O_TMPFILE, mode, 0) == answer);
  CHECK(run(SYS_open, 7, O_RDONLY, mode, 0) == SECCOMP_RET_ALLOW);
#endif
}

int main(void) {
  size_t length = set_id_program(program);
  CHECK(length > 0 && length <= SET_ID_PROGRAM_MAX);
  for (uint64_t mode = 0; mode < 010000; mode++) check_mode(mode, (mode & 06000) == 0 ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | EPERM);
  CHECK(run(SYS_openat2, 3, 7, 8, 24) == (SECCOMP_RET_ERRNO | ENOSYS));
  CHECK(run(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 7, 0) == (SECCOMP_RET_ERRNO | EINVAL));
  CHECK(run(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, 7, 0) == SECCOMP_RET_ALLOW);
  CHECK(run(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, 7, 0) == SECCOMP_RET_ALLOW);
  for (long number = 0; number < 512; number++) {
    bool is_ours = number == SYS_fchmod || number == SYS_fchmodat || number == 452 || number == SYS_mknodat || number == SYS_openat ||
                   number == SYS_openat2 || number == SYS_seccomp;
#ifdef SYS_open
    is_ours = is_ours || number == SYS_chmod || number == SYS_creat || number == SYS_mknod || number == SYS_open;
#endif
    if (!is_ours) CHECK(run(number, 06777, 06777, 06777, 06777) == SECCOMP_RET_ALLOW);
  }
  set_id_lets_filter();
  CHECK(run(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 7, 0) == SECCOMP_RET_ALLOW);
  CHECK(run(SYS_openat2, 3, 7, 8, 24) == (SECCOMP_RET_ERRNO | ENOSYS));
  check_mode(04755, SECCOMP_RET_ERRNO | EPERM);
  return check_summary();
}
