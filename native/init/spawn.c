/* Starting a command: see spawn.h. The child runs nothing but system calls until execve, and most have PID 1's memory meanwhile. */
#include "init/spawn.h"
#include "init/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/pid_one.h"
#include "common/set_id.h"
#include "init/fork_thread.h"
#include "init/jobs.h"
#include "init/trace.h"

enum spawn_step { STEP_SESSION, STEP_TERMINAL, STEP_LIMITS, STEP_USER, STEP_CWD, STEP_FILTER, STEP_TRACE, STEP_EXECUTE };

/* The child's ends; closed in the parent when spawn returns. Without `status` the child has PID 1's memory. */
struct child_ends {
  int input;
  int output;
  int error;
  int status;
};

/* TIOCGPTPEER opens the other end by descriptor: nothing inside can lie about which terminal it is. */
#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

enum { CHILD_STATUS_FD = 3, CHILD_TRACE_FD };

/* What a child in our memory works from, and where it leaves why it could not start: the request's own memory is the next request's before
 * it is done. */
static struct {
  struct exec_request spec;
  struct child_ends ends;
  struct spawn_failure failure;
  char *words[2 * (FRAME_FIELDS_MAX + 1)];
  char text[FRAME_PAYLOAD_BYTES_MAX + 1];
} kept;

const char *spawn_step_text(int32_t step) {
  switch (step) {
    case STEP_SESSION: return "a session of its own";
    case STEP_TERMINAL: return "the controlling terminal";
    case STEP_LIMITS: return "the limit of open files";
    case STEP_USER: return "the user";
    case STEP_CWD: return "the working directory";
    case STEP_FILTER: return "the filter of set-uid files";
    case STEP_TRACE: return "the trace of paths";
    default: return "the program";
  }
}

int become(uid_t uid, gid_t gid) {
  /* The C library's calls would have every thread it knows change its ids: in PID 1's memory these are PID 1's.
   * EPERM: a user namespace without a group range. Nobody in it can take on another group, so none is dropped. */
  if (syscall(SYS_setgroups, 0, NULL) != 0 && errno != EPERM) return -1;
  if (syscall(SYS_setresgid, gid, gid, gid) != 0) return -1;
  return (int)syscall(SYS_setresuid, uid, uid, uid);
}

static int limit_open_files(uint64_t wanted) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return -1;
  if (wanted < limit.rlim_max) limit.rlim_max = (rlim_t)wanted;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit);
}

/* As execvp, but with the command's own PATH and without handing a text file to a shell. Returns an errno. */
static int execute(char *const *arguments, char *const *environment) {
  const char *name = arguments[0];
  if (name[0] == '\0') return ENOENT;
  if (strchr(name, '/') != NULL) {
    (void)execve(name, arguments, environment);
    return errno;
  }
  const char *path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  for (char *const *entry = environment; *entry != NULL; entry++) {
    if (strncmp(*entry, "PATH=", 5) == 0) path = *entry + 5;
  }
  int failure = ENOENT;
  static char candidate[GUEST_PATH_BYTES_MAX];
  for (;;) {
    size_t length = strcspn(path, ":");
    int written = snprintf(candidate, sizeof candidate, "%.*s%s%s", (int)length, path, length > 0 ? "/" : "", name);
    if (written > 0 && (size_t)written < sizeof candidate) {
      (void)execve(candidate, arguments, environment);
      if (errno == EACCES) failure = EACCES;
      else if (errno != ENOENT && errno != ENOTDIR && errno != ENODEV && errno != ESTALE) return errno;
    }
    if (path[length] == '\0') return failure;
    path += length + 1;
  }
}

static _Noreturn void fail(const struct child_ends *ends, enum spawn_step step, int number) {
  struct spawn_failure failure = {.number = number, .step = (int32_t)step};
  if (ends->status < 0) {
    kept.failure = failure;
    _exit(127);
  }
  /* Less than PIPE_BUF into an empty pipe: all or nothing, and it can't be full. */
  ssize_t ignored = write(CHILD_STATUS_FD, &failure, sizeof failure);
  (void)ignored;
  _exit(127);
}

static _Noreturn void run_child(const struct exec_request *spec, const struct child_ends *ends) {
  /* PID 1 keeps 0, 1 and 2 occupied, so no source is overwritten before it is copied. */
  (void)dup2(ends->input, 0);
  (void)dup2(ends->output, 1);
  (void)dup2(ends->error, 2);
  if (ends->status >= 0 && ends->status != CHILD_STATUS_FD) (void)dup3(ends->status, CHILD_STATUS_FD, O_CLOEXEC);
  /* Before anything that can block: another command's pipe held open here would hide its end. */
  bool is_traced = trace_keep_channel(CHILD_TRACE_FD);
  close_from(is_traced ? CHILD_TRACE_FD + 1 : CHILD_STATUS_FD + (ends->status >= 0));
  if (setsid() < 0) fail(ends, STEP_SESSION, errno);
  if (spec->tty && ioctl(0, TIOCSCTTY, 0) != 0) fail(ends, STEP_TERMINAL, errno);
  pid_one_child_goes_first();
  if (spec->has_jobs) jobs_begin();
  if (limit_open_files(spec->open_files_max) != 0) fail(ends, STEP_LIMITS, errno);
  if (become(spec->uid, spec->gid) != 0) fail(ends, STEP_USER, errno);
  /* The kernel has made this memory, which is PID 1's or a copy, what fs.suid_dumpable says: it is nobody's to dump or to trace. A trace of paths reads it. */
  if (!is_traced && prctl(PR_SET_DUMPABLE, 0) != 0) fail(ends, STEP_USER, errno);
  if (chdir(spec->cwd) != 0) fail(ends, STEP_CWD, errno); /* As that user: what it may not enter is refused. */
  sigset_t none;
  sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, NULL);
  if (set_id_begin() != 0) fail(ends, STEP_FILTER, errno);
  if (is_traced && trace_begin(CHILD_TRACE_FD) != 0) fail(ends, STEP_TRACE, errno);
  fail(ends, STEP_EXECUTE, execute(spec->arguments, spec->environment));
}

static _Noreturn void run_kept(void) {
  run_child(&kept.spec, &kept.ends);
}

/* The words at `at`, their text at `text`; returns where the next text goes. All of it was one payload, with a header for each word. */
static char *keep_words(char *const *from, char **at, char *text) {
  for (; *from != NULL; from++) {
    *at++ = text;
    text = stpcpy(text, *from) + 1;
  }
  *at = NULL;
  return text;
}

static void keep(const struct exec_request *spec, const struct child_ends *ends) {
  kept.failure = (struct spawn_failure){0};
  kept.spec = *spec;
  kept.ends = *ends;
  char **environment = &kept.words[FRAME_FIELDS_MAX + 1];
  char *cwd = keep_words(spec->environment, environment, keep_words(spec->arguments, kept.words, kept.text));
  (void)stpcpy(cwd, spec->cwd);
  kept.spec.arguments = kept.words;
  kept.spec.environment = environment;
  kept.spec.cwd = cwd;
}

const struct spawn_failure *spawn_thread_failure(void) { return kept.failure.number == 0 ? NULL : &kept.failure; }

/* Returns its pid, or -1 with errno. */
static pid_t start_child(const struct exec_request *spec, const struct child_ends *ends) {
  if (ends->status < 0) {
    keep(spec, ends);
    return fork_thread_start(run_kept);
  }
  pid_t pid = machine_fork();
  if (pid == 0) run_child(spec, ends);
  /* Not before: the first command comes when its sandbox has just begun, and somebody waits for both. */
  if (!trace_is_on()) fork_thread_prepare();
  return pid;
}

static int open_pipe(int *read_end, int *write_end, int *nonblocking_end) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return errno;
  *read_end = ends[0];
  *write_end = ends[1];
  /* It is new: no other flag has to stay. */
  return fcntl(*nonblocking_end, F_SETFL, O_NONBLOCK) == 0 ? 0 : errno;
}

static int open_terminal(const struct exec_request *spec, struct spawned *out, struct child_ends *ends) {
  cleanup_fd master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  if (master < 0) return errno;
  int unlocked = 0;
  struct winsize size = {.ws_row = spec->rows, .ws_col = spec->columns};
  if (ioctl(master, TIOCSPTLCK, &unlocked) != 0 || ioctl(master, TIOCSWINSZ, &size) != 0) return errno;
  ends->input = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (ends->input < 0) return errno;
  /* For programs that open their terminal by name. Without CHOWN the name stays closed, /dev/tty works. */
  if (fchown(ends->input, spec->uid, (gid_t)-1) == 0) (void)fchmod(ends->input, 0620);
  ends->output = ends->error = ends->input;
  /* epoll holds one entry per descriptor: reading and writing are waited for apart. */
  out->input = fcntl(master, F_DUPFD_CLOEXEC, 3);
  if (out->input < 0) return errno;
  out->output = take_fd(&master);
  return 0;
}

static int open_pipes(const struct exec_request *spec, int null_fd, struct spawned *out, struct child_ends *ends) {
  int failure = 0;
  if (spec->stdin_pipe) failure = open_pipe(&ends->input, &out->input, &out->input);
  else ends->input = null_fd;
  if (failure == 0) failure = open_pipe(&out->output, &ends->output, &out->output);
  if (failure == 0) failure = open_pipe(&out->error, &ends->error, &out->error);
  return failure;
}

static void close_spawned(struct spawned *out) {
  close_fd(&out->status);
  close_fd(&out->input);
  close_fd(&out->output);
  close_fd(&out->error);
}

int spawn(const struct exec_request *spec, int null_fd, struct spawned *out) {
  *out = (struct spawned){.pid = -1, .status = -1, .input = -1, .output = -1, .error = -1};
  struct child_ends ends = {.input = -1, .output = -1, .error = -1, .status = -1};
  bool is_copied = trace_is_on() || !fork_thread_is_free();
  int failure = is_copied ? open_pipe(&out->status, &ends.status, &out->status) : 0;
  if (failure == 0) {
    failure = spec->tty ? open_terminal(spec, out, &ends) : open_pipes(spec, null_fd, out, &ends);
  }
  if (failure == 0) failure = trace_start(spec->uid, spec->gid);
  if (failure == 0) {
    out->pid = start_child(spec, &ends);
    if (out->pid < 0) failure = errno;
  }
  if (!spec->tty) {
    close_fd(&ends.output);
    close_fd(&ends.error);
  }
  if (ends.input != null_fd) close_fd(&ends.input);
  close_fd(&ends.status);
  if (failure != 0) close_spawned(out);
  return failure;
}
