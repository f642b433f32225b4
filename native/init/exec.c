/* The life of a command: see exec.h. Signals go to a process group only while PID 1 knows that it is the right one. */
#include "init/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/fork_thread.h"
#include "init/machine.h"
#include "init/spawn.h"

/* Between TERM and KILL of a command that has run out of time. */
enum { KILL_DELAY_MS = 2000 };

static int null_fd = -1;
static uint64_t end_order;

static void status_ready(void *owner, uint32_t events);

/* `failure`: NULL where it runs. */
static void settle(struct exec *exec, const struct spawn_failure *failure) {
  if (failure == NULL) {
    exec->state = EXEC_RUNNING;
    if (exec->client != NULL) exec_client->started(exec->client);
    return;
  }
  struct connection *client = exec->client;
  exec->client = NULL;
  exec_free(exec); /* The child is reaped as anybody's. */
  if (client != NULL) exec_client->failed(client, failure->number, spawn_step_text(failure->step));
}

/* One at most is started by the thread at a time. */
static void thread_is_over(void) {
  struct exec *exec;
  for (unsigned i = 0; (exec = exec_at(i)) != NULL; i++) {
    if (exec->state != EXEC_STARTING || exec->status.fd >= 0) continue;
    settle(exec, spawn_thread_failure());
    return;
  }
}

int exec_start_all(const struct exec_client *client) {
  exec_client = client;
  fork_thread_tell(thread_is_over);
  null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  return null_fd < 0 ? -1 : 0;
}

int exec_start(const struct exec_request *spec, struct connection *client, struct exec **out) {
  struct exec *exec = *out;
  memset(exec, 0, sizeof *exec);
  exec->status.fd = -1;
  for (int i = 0; i < STREAM_COUNT; i++) exec->streams[i].watch.fd = -1;
  exec->input.watch.fd = -1;
  /* Mapped whole at the start, so that a command is refused rather than stuck for want of memory later; pages come
   * when they are written. */
  exec->memory = exec_memory();
  if (exec->memory == NULL) return ENOMEM;
  struct spawned spawned;
  int failure = spawn(spec, null_fd, &spawned);
  if (failure != 0) {
    exec_free(exec);
    return failure;
  }
  exec->state = EXEC_STARTING;
  memcpy(exec->id, spec->id, spec->id_length);
  exec->id_length = (uint8_t)spec->id_length;
  exec->tty = spec->tty;
  exec->has_jobs = spec->has_jobs;
  exec->has_input = spawned.input >= 0;
  exec->pid = spawned.pid;
  exec->client = client;
  if (spec->timeout_ms > 0) exec->deadline_ms = clock_ms() + spec->timeout_ms;
  watch_start(&exec->status, spawned.status, status_ready, exec);
  watch_for(&exec->status, EPOLLIN);
  exec_streams_start(exec, spawned.input, spawned.output, spawned.error);
  return 0;
}

/* The child has reported, or executed the program, or died on the way there. */
static void status_ready(void *owner, uint32_t events) {
  (void)events;
  struct exec *exec = owner;
  struct spawn_failure failure;
  ssize_t got = read(exec->status.fd, &failure, sizeof failure);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  watch_close(&exec->status);
  settle(exec, got == (ssize_t)sizeof failure ? &failure : NULL);
}

/* Whether children of PID 1 are left in the group. Orphans of the main process are its children by now. */
static bool group_has_members(const struct exec *exec) {
  siginfo_t info;
  return waitid(P_PGID, (id_t)exec->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static void finish(struct exec *exec) {
  exec->state = EXEC_DRAINING;
  exec->is_stopped = exec->stop_is_due = false;
  exec->deadline_ms = 0;
  exec->end_order = ++end_order;
  exec_streams_drain(exec);
}

bool exec_child_ended(pid_t pid, int wait_status, const struct rusage *usage) {
  struct exec *exec = NULL;
  for (unsigned i = 0; (exec = exec_at(i)) != NULL; i++) {
    bool is_alive = exec->state == EXEC_STARTING || exec->state == EXEC_RUNNING;
    if (is_alive && exec->pid == pid) break;
  }
  if (exec == NULL) return false;
  /* Both can come in one turn of the loop: the report first, else a failed start would look like an exit. */
  if (exec->state == EXEC_STARTING) {
    if (exec->status.fd >= 0) status_ready(exec, EPOLLIN);
    else settle(exec, spawn_thread_failure());
  }
  if (exec->state != EXEC_RUNNING) return true;
  exec->wait_status = wait_status;
  exec->usage = *usage;
  exec->oom_kills = wait_status == 0 ? 0 : machine_oom_kills();
  if (exec->timed_out && !exec->kill_sent && group_has_members(exec)) {
    exec->state = EXEC_LINGERING;
  } else {
    finish(exec);
  }
  return true;
}

void exec_check_groups(void) {
  struct exec *exec;
  for (unsigned i = 0; (exec = exec_at(i)) != NULL; i++) {
    if (exec->state == EXEC_LINGERING && !group_has_members(exec)) finish(exec);
  }
}

void exec_child_stopped(pid_t pid) {
  struct exec *exec;
  for (unsigned i = 0; (exec = exec_at(i)) != NULL; i++) {
    bool is_alive = exec->state == EXEC_STARTING || exec->state == EXEC_RUNNING;
    if (!is_alive || exec->pid != pid || !exec->has_jobs) continue;
    exec->is_stopped = true;
    exec_stop_note(exec);
    if (exec->client != NULL) exec_client->output(exec->client);
    return;
  }
}

static bool stops(int signo) { return signo == SIGSTOP || signo == SIGTSTP || signo == SIGTTIN || signo == SIGTTOU; }

void exec_signal(struct exec *exec, int signo) {
  /* Not reaped, so pid and group are still this command's. In STARTING the child may not have its session yet: then
   * there is no such group and the signal goes to it alone. */
  if (exec->state != EXEC_STARTING && exec->state != EXEC_RUNNING) return;
  if (kill(-exec->pid, signo) != 0 && errno == ESRCH) (void)kill(exec->pid, signo);
  if (!exec->is_stopped || stops(signo)) return;
  exec->is_stopped = exec->stop_is_due = false;
  if (signo != SIGCONT) (void)kill(-exec->pid, SIGCONT);
}

int exec_next_deadline_ms(void) {
  int64_t next = INT64_MAX;
  struct exec *exec;
  for (unsigned i = 0; (exec = exec_at(i)) != NULL; i++) {
    if (exec->deadline_ms != 0 && exec->deadline_ms < next) next = exec->deadline_ms;
  }
  if (next == INT64_MAX) return -1;
  int64_t left = next - clock_ms();
  return left < 0 ? 0 : left > INT_MAX ? INT_MAX : (int)left;
}

static void deadline_passed(struct exec *exec, int64_t now) {
  if (!exec->timed_out) {
    exec->timed_out = true;
    exec->deadline_ms = now + KILL_DELAY_MS;
    exec_signal(exec, SIGTERM);
    exec_signal(exec, SIGCONT); /* A stopped command could not act on the TERM. */
    return;
  }
  exec->deadline_ms = 0;
  exec->kill_sent = true;
  if (exec->state != EXEC_LINGERING) {
    exec_signal(exec, SIGKILL);
    return;
  }
  /* Members found here are children of PID 1 that nobody else reaps: the group's number can't be another's. */
  if (group_has_members(exec)) (void)kill(-exec->pid, SIGKILL);
  finish(exec);
}

void exec_check_deadlines(void) {
  int64_t now = 0;
  struct exec *exec;
  for (unsigned i = 0; (exec = exec_at(i)) != NULL; i++) {
    if (exec->deadline_ms == 0) continue;
    if (now == 0) now = clock_ms();
    if (exec->deadline_ms <= now) deadline_passed(exec, now);
  }
}
