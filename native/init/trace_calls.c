/* The table of calls: see trace_calls.h. What is not in it (xattrs, sockets, watches) is not traced. */
#include "init/trace_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NONE = -1 };
enum what {
  LOOKS,
  LOOKS_AT_LINK,
  LOOKS_BY_FLAGS, /* AT_SYMLINK_NOFOLLOW in argument `more` */
  ASKS,           /* access(2): the mode in argument `more` */
  OPENS,          /* open(2): the flags in argument `more` */
  OPENS_HOW,      /* openat2: the flags behind the pointer in argument `more` */
  EXECUTES,
  ENTERS,
  WRITES,
  CREATES,
  MAKES,
  REMOVES,
};

struct row {
  int number;
  enum what what;
  int directory; /* the argument; NONE: the working directory */
  int path;
  int more;
};

#define ROW(name, ...) {__NR_##name, __VA_ARGS__},
static const struct row rows[] = {
    /* clang-format off */
#ifdef __NR_open
    ROW(open, OPENS, NONE, 0, 1) ROW(creat, CREATES, NONE, 0, NONE) ROW(stat, LOOKS, NONE, 0, NONE)
    ROW(lstat, LOOKS_AT_LINK, NONE, 0, NONE) ROW(access, ASKS, NONE, 0, 1) ROW(readlink, LOOKS_AT_LINK, NONE, 0, NONE)
    ROW(mkdir, MAKES, NONE, 0, NONE) ROW(mknod, MAKES, NONE, 0, NONE) ROW(symlink, MAKES, NONE, 1, NONE)
    ROW(link, LOOKS_AT_LINK, NONE, 0, NONE) ROW(link, MAKES, NONE, 1, NONE)
    ROW(rename, REMOVES, NONE, 0, NONE) ROW(rename, MAKES, NONE, 1, NONE)
    ROW(unlink, REMOVES, NONE, 0, NONE) ROW(rmdir, REMOVES, NONE, 0, NONE) ROW(chmod, WRITES, NONE, 0, NONE)
    ROW(chown, WRITES, NONE, 0, NONE) ROW(lchown, WRITES, NONE, 0, NONE) ROW(utimes, WRITES, NONE, 0, NONE)
    ROW(utime, WRITES, NONE, 0, NONE)
#endif
#ifdef __NR_renameat
    ROW(renameat, REMOVES, 0, 1, NONE) ROW(renameat, MAKES, 2, 3, NONE)
#endif
    ROW(openat, OPENS, 0, 1, 2) ROW(openat2, OPENS_HOW, 0, 1, 2) ROW(newfstatat, LOOKS_BY_FLAGS, 0, 1, 3)
    ROW(statx, LOOKS_BY_FLAGS, 0, 1, 2) ROW(faccessat, ASKS, 0, 1, 2) ROW(faccessat2, ASKS, 0, 1, 2)
    ROW(readlinkat, LOOKS_AT_LINK, 0, 1, NONE) ROW(execve, EXECUTES, NONE, 0, NONE) ROW(execveat, EXECUTES, 0, 1, NONE)
    ROW(chdir, ENTERS, NONE, 0, NONE) ROW(truncate, WRITES, NONE, 0, NONE) ROW(mkdirat, MAKES, 0, 1, NONE)
    ROW(mknodat, MAKES, 0, 1, NONE) ROW(symlinkat, MAKES, 1, 2, NONE) ROW(linkat, LOOKS_AT_LINK, 0, 1, NONE)
    ROW(linkat, MAKES, 2, 3, NONE) ROW(renameat2, REMOVES, 0, 1, NONE) ROW(renameat2, MAKES, 2, 3, NONE)
    ROW(unlinkat, REMOVES, 0, 1, NONE) ROW(fchmodat, WRITES, 0, 1, NONE) ROW(fchownat, WRITES, 0, 1, NONE)
    ROW(utimensat, WRITES, 0, 1, NONE)
    {452 /* fchmodat2 */, WRITES, 0, 1, NONE}
    /* clang-format on */
};
enum { ROWS = sizeof rows / sizeof rows[0] };
_Static_assert(2 * ROWS + 16 < TRACE_PROGRAM_MAX, "the program has room for each call");

static void put(struct sock_filter *program, size_t *used, struct sock_filter instruction) {
  program[(*used)++] = instruction;
}

size_t trace_program(struct sock_filter program[TRACE_PROGRAM_MAX]) {
  const uint32_t argument = (uint32_t)offsetof(struct seccomp_data, args);
  size_t used = 0;
  put(program, &used, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, nr)));
  for (unsigned i = 0; i < ROWS; i++) {
    if (i > 0 && rows[i].number == rows[i - 1].number) continue;
    put(program, &used, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)rows[i].number, 0, 1));
    put(program, &used, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
  }
  put(program, &used, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_socket, 0, 4));
  put(program, &used, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument));
  put(program, &used, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1));
  put(program, &used, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
  put(program, &used, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  /* The sandbox's own filter lets PID 1 load this one, and says no to prctl. */
  put(program, &used, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_seccomp, 0, 3));
  put(program, &used, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, argument));
  put(program, &used, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SECCOMP_SET_MODE_FILTER, 0, 1));
  put(program, &used, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL));
  put(program, &used, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  return used;
}

static enum trace_need need_to_open(uint64_t flags) {
  bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0;
  if ((flags & O_PATH) == O_PATH) return NEED_LOOK;
  if ((flags & O_CREAT) != 0) return NEED_MAKE_OR_WRITE;
  return writes ? NEED_WRITE : NEED_READ;
}

static enum trace_need need_to_ask(uint64_t mode) {
  if ((mode & W_OK) != 0) return NEED_WRITE;
  if ((mode & R_OK) != 0) return NEED_READ;
  return (mode & X_OK) != 0 ? NEED_EXECUTE : NEED_LOOK;
}

static struct trace_wish wish_of(const struct row *row, const struct seccomp_data *data,
                                 bool (*read_u64)(uint64_t address, uint64_t *value)) {
  struct trace_wish wish = {.follows_link = true,
                            .path = data->args[row->path],
                            .directory = row->directory == NONE ? AT_FDCWD : (int32_t)data->args[row->directory]};
  uint64_t more = row->more == NONE ? 0 : data->args[row->more];
  switch (row->what) {
    case LOOKS:
    case ENTERS: wish.need = NEED_LOOK; break;
    case LOOKS_AT_LINK:
      wish.need = NEED_LOOK;
      wish.follows_link = false;
      break;
    case LOOKS_BY_FLAGS:
      wish.need = NEED_LOOK;
      wish.follows_link = (more & AT_SYMLINK_NOFOLLOW) == 0;
      break;
    case ASKS: wish.need = need_to_ask(more); break;
    case OPENS_HOW:
      if (!read_u64(more, &more)) more = 0;
      wish.need = need_to_open(more);
      break;
    case OPENS: wish.need = need_to_open(more); break;
    case EXECUTES: wish.need = NEED_EXECUTE; break;
    case WRITES: wish.need = NEED_WRITE; break;
    case CREATES: wish.need = NEED_MAKE_OR_WRITE; break;
    case MAKES: wish.need = NEED_MAKE; break;
    case REMOVES:
      wish.need = NEED_REMOVE;
      wish.follows_link = false;
      break;
  }
  return wish;
}

unsigned trace_wishes(const struct seccomp_data *data, bool (*read_u64)(uint64_t address, uint64_t *value),
                      struct trace_wish wishes[TRACE_WISHES_MAX]) {
  unsigned count = 0;
  for (unsigned i = 0; i < ROWS && count < TRACE_WISHES_MAX; i++) {
    if (rows[i].number == data->nr) wishes[count++] = wish_of(&rows[i], data, read_u64);
  }
  return count;
}
