/* The filter and who loads it: see set_id.h. */
#include "common/set_id.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_wanted;
static bool has_own_filters;

void set_id_refuse(void) {
  is_wanted = true;
}

void set_id_lets_filter(void) {
  has_own_filters = true;
}

enum { NONE = -1 };

/* Calls that give a file its mode. */
static const struct row {
  int number;
  int mode;
  int flags; /* the argument with those of open(2), without O_CREAT and O_TMPFILE of which the mode is anything */
} rows[] = {
#ifdef __NR_open
    {__NR_chmod, 1, NONE}, {__NR_creat, 1, NONE}, {__NR_mknod, 1, NONE}, {__NR_open, 2, 1},
#endif
    {__NR_fchmod, 1, NONE}, {__NR_fchmodat, 2, NONE}, {452 /* fchmodat2 */, 2, NONE}, {__NR_mknodat, 2, NONE}, {__NR_openat, 3, 2},
};
enum { ROWS = sizeof rows / sizeof rows[0], STEPS_OF_ROW = 7 };
_Static_assert(STEPS_OF_ROW * ROWS + 10 < SET_ID_PROGRAM_MAX, "the program has room for each call");

static uint32_t argument(int index) {
  return (uint32_t)(offsetof(struct seccomp_data, args) + (unsigned)index * 8);
}

/* An instruction that goes on behind the next ones: `yes` or `no` of them are left out. */
#define TEST(how, value, yes, no) (struct sock_filter) BPF_JUMP(BPF_JMP | (how) | BPF_K, (uint32_t)(value), yes, no)
#define LOAD(at) (struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(at))
#define ANSWER(value) (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, (uint32_t)(value))

size_t set_id_program(struct sock_filter program[SET_ID_PROGRAM_MAX]) {
  size_t used = 0;
  program[used++] = LOAD(offsetof(struct seccomp_data, nr));
  for (unsigned i = 0; i < ROWS; i++) {
    bool has_flags = rows[i].flags != NONE;
    program[used++] = TEST(BPF_JEQ, rows[i].number, 0, has_flags ? 6 : 4);
    if (has_flags) {
      program[used++] = LOAD(argument(rows[i].flags));
      program[used++] = TEST(BPF_JSET, O_CREAT | (O_TMPFILE & ~O_DIRECTORY), 0, 2);
    }
    program[used++] = LOAD(argument(rows[i].mode));
    program[used++] = TEST(BPF_JSET, S_ISUID | S_ISGID, 1, 0);
    program[used++] = ANSWER(SECCOMP_RET_ALLOW);
    program[used++] = ANSWER(SECCOMP_RET_ERRNO | EPERM);
  }
  program[used++] = TEST(BPF_JEQ, __NR_openat2, 0, 1);
  program[used++] = ANSWER(SECCOMP_RET_ERRNO | ENOSYS);
  /* The sandbox's own filter has let PID 1 load this one; a trace of paths loads one with a listener behind it. */
  if (has_own_filters) {
    program[used++] = ANSWER(SECCOMP_RET_ALLOW);
    return used;
  }
  program[used++] = TEST(BPF_JEQ, __NR_seccomp, 0, 5);
  program[used++] = LOAD(argument(0));
  program[used++] = TEST(BPF_JEQ, SECCOMP_SET_MODE_FILTER, 0, 3);
  program[used++] = LOAD(argument(1));
  program[used++] = TEST(BPF_JEQ, 0, 0, 1);
  program[used++] = ANSWER(SECCOMP_RET_ERRNO | EINVAL);
  program[used++] = ANSWER(SECCOMP_RET_ALLOW);
  return used;
}

int set_id_begin(void) {
  struct sock_filter program[SET_ID_PROGRAM_MAX];
  if (!is_wanted) return 0;
  /* EPERM: a command that is not of root has no capability to drop. With nesting a program needs it for its own sandboxes' ids, and a box of root has no nesting. */
  if (!has_own_filters && prctl(PR_CAPBSET_DROP, CAP_SETFCAP) != 0 && errno != EPERM) return -1;
  struct sock_fprog whole = {.len = (unsigned short)set_id_program(program), .filter = program};
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &whole);
}
