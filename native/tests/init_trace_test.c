/* Traces of paths: what each call wants of which path, how paths are put together, and that the set is bounded. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "init/trace_calls.h"
#include "init/trace_set.h"
#include "tests/check.h"

static struct sock_filter program[TRACE_PROGRAM_MAX];

/* What the kernel would do of it: loads, equality, returns. */
static uint32_t run(const struct seccomp_data *data, size_t length) {
  uint32_t value = 0;
  for (size_t at = 0; at < length; at++) {
    const struct sock_filter *step = &program[at];
    if (step->code == (BPF_RET | BPF_K)) return step->k;
    if (step->code == (BPF_LD | BPF_W | BPF_ABS)) memcpy(&value, (const uint8_t *)data + step->k, sizeof value);
    else at += value == step->k ? step->jt : step->jf;
  }
  return 0;
}

static void check_program(void) {
  size_t length = trace_program(program);
  CHECK(length > 0 && length <= TRACE_PROGRAM_MAX);
  static const long traced[] = {SYS_openat, SYS_openat2, SYS_newfstatat, SYS_statx, SYS_execve, SYS_unlinkat, SYS_renameat2, SYS_mkdirat};
  for (size_t i = 0; i < sizeof traced / sizeof traced[0]; i++) {
    struct seccomp_data data = {.nr = (int)traced[i]};
    CHECK(run(&data, length) == SECCOMP_RET_USER_NOTIF);
  }
  struct seccomp_data data = {.nr = SYS_read};
  CHECK(run(&data, length) == SECCOMP_RET_ALLOW);
  data = (struct seccomp_data){.nr = SYS_socket, .args = {AF_NETLINK}};
  CHECK(run(&data, length) == SECCOMP_RET_USER_NOTIF);
  data = (struct seccomp_data){.nr = SYS_socket, .args = {AF_UNIX}};
  CHECK(run(&data, length) == SECCOMP_RET_ALLOW);
  data = (struct seccomp_data){.nr = SYS_seccomp, .args = {SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER}};
  CHECK(run(&data, length) == (SECCOMP_RET_ERRNO | EINVAL));
  data = (struct seccomp_data){.nr = SYS_seccomp, .args = {SECCOMP_GET_ACTION_AVAIL}};
  CHECK(run(&data, length) == SECCOMP_RET_ALLOW);
}

static bool read_write_create(uint64_t address, uint64_t *value) {
  *value = O_WRONLY | O_CREAT;
  return address == 7;
}

static enum trace_need need_of(int number, uint64_t third) {
  struct trace_wish wishes[TRACE_WISHES_MAX];
  struct seccomp_data data = {.nr = number, .args = {3, 4, third, 0}};
  return trace_wishes(&data, read_write_create, wishes) == 0 ? NEED_LOOK : wishes[0].need;
}

static void check_wishes(void) {
  CHECK(need_of(SYS_openat, O_RDONLY) == NEED_READ && need_of(SYS_openat, O_RDWR) == NEED_WRITE);
  CHECK(need_of(SYS_openat, O_RDONLY | O_TRUNC) == NEED_WRITE && need_of(SYS_openat, O_PATH) == NEED_LOOK);
  CHECK(need_of(SYS_openat, O_WRONLY | O_CREAT) == NEED_MAKE_OR_WRITE);
  CHECK(need_of(SYS_openat2, 7) == NEED_MAKE_OR_WRITE && need_of(SYS_openat2, 8) == NEED_READ);
  CHECK(need_of(SYS_faccessat, W_OK) == NEED_WRITE && need_of(SYS_faccessat, X_OK) == NEED_EXECUTE && need_of(SYS_faccessat, F_OK) == NEED_LOOK);
  struct trace_wish wishes[TRACE_WISHES_MAX];
  struct seccomp_data data = {.nr = SYS_renameat2, .args = {3, 100, (uint64_t)(int64_t)AT_FDCWD, 200}};
  CHECK(trace_wishes(&data, read_write_create, wishes) == 2);
  CHECK(wishes[0].need == NEED_REMOVE && wishes[0].directory == 3 && wishes[0].path == 100);
  CHECK(wishes[1].need == NEED_MAKE && wishes[1].directory == AT_FDCWD && wishes[1].path == 200);
  data.nr = SYS_read;
  CHECK(trace_wishes(&data, read_write_create, wishes) == 0);
}

static bool joins(const char *base, const char *path, const char *wanted) {
  char out[GUEST_PATH_BYTES_MAX];
  return trace_path_join(base, path, out) && strcmp(out, wanted) == 0;
}

static void check_paths(void) {
  CHECK(joins("/a/b", "c", "/a/b/c") && joins("/a/b", "../c", "/a/c") && joins("/a", "/x//y/./z/", "/x/y/z"));
  CHECK(joins("/", "x", "/x") && joins("/a", "../../..", "/") && joins("/a", ".", "/a") && joins("", "/..x/...", "/..x/..."));
  char out[GUEST_PATH_BYTES_MAX];
  CHECK(!trace_path_join("", "x", out) && !trace_path_join("(unreachable)/a", "x", out));
  static char longest[2 * GUEST_PATH_BYTES_MAX];
  memset(longest, 'a', sizeof longest - 1);
  longest[0] = '/';
  CHECK(!trace_path_join("/", longest, out));
  longest[GUEST_PATH_BYTES_MAX] = '\0';
  CHECK(!trace_path_join("/", longest, out));
  longest[GUEST_PATH_BYTES_MAX - 1] = '\0';
  CHECK(joins("/", longest, longest));
  CHECK(!trace_path_join("/b", longest + 1, out));
}

static void check_set(void) {
  CHECK(trace_set_count() == 0 && !trace_set_has("/a", INTENT_READ));
  trace_set_add("/a", INTENT_READ, 5);
  trace_set_add("/a", INTENT_READ, 6);
  trace_set_add("/a", INTENT_WRITE, 7);
  CHECK(trace_set_count() == 2 && trace_set_has("/a", INTENT_READ) && !trace_set_has("/a", INTENT_LOOK) && !trace_set_has("/", INTENT_READ));
  CHECK(trace_set_at(0)->at_us == 5 && trace_set_at(1)->intent == INTENT_WRITE && strcmp(trace_set_at(1)->path, "/a") == 0);
  char path[32];
  for (unsigned i = 0; i < 3 * GUEST_TRACED_PATHS_MAX; i++) {
    (void)snprintf(path, sizeof path, "/missing/%u", i);
    trace_set_add(path, INTENT_READ, 0);
  }
  CHECK(trace_set_count() == GUEST_TRACED_PATHS_MAX && trace_set_is_full());
  CHECK(trace_set_has("/missing/1", INTENT_READ) && !trace_set_has(path, INTENT_READ));
}

int main(void) {
  check_program();
  check_wishes();
  check_paths();
  check_set();
  return check_summary();
}
