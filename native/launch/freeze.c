/* Stand-stills that clients ask for: see freeze.h. */
#include "launch/freeze.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/connection.h"
#include "launch/stillness.h"
#include "launch/worker.h"

/* Those whom the result was promised. `number` is an errno, or 0. */
static void answer_freezes(struct launcher *launcher, const struct sandbox *sandbox, int number) {
  struct fault fault = {0};
  errno = number;
  if (number != 0) fault_set(&fault, "launch_failed", "can't freeze sandbox \"%s\"", sandbox->name);
  for (struct connection *at = launcher->connections; at != NULL;) {
    struct connection *next = at->next;
    if (at->still_wait == sandbox->instance) {
      if (number == 0) connection_ok(launcher, at);
      else connection_fault(launcher, at, &fault);
    }
    at = next;
  }
}

static _Noreturn void freeze_main(const struct launcher *launcher, const struct sandbox *sandbox) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  (void)setpgid(0, 0); /* A group with those it sends into the sandbox: see stillness_end_group. */
  child_forget(launcher, -1);
  int number = stillness_set(launcher, sandbox, true) == 0 ? 0 : errno;
  if (number != 0) (void)stillness_set(launcher, sandbox, false);
  _exit(number);
}

void freeze_begin(struct launcher *launcher, struct sandbox *sandbox, struct connection *connection) {
  struct fault fault;
  freeze_yield(launcher, sandbox);
  pid_t pid = fork();
  if (pid == 0) freeze_main(launcher, sandbox);
  if (pid < 0) {
    fault_set(&fault, "launch_failed", "can't fork who freezes sandbox \"%s\"", sandbox->name);
    connection_fault(launcher, connection, &fault);
    return;
  }
  (void)setpgid(pid, pid); /* Whoever of the two comes first. */
  sandbox->freezer = pid;
  connection->still_wait = sandbox->instance;
}

void freeze_child_ended(struct launcher *launcher, struct sandbox *sandbox, int status) {
  sandbox->freezer = 0;
  sandbox->is_frozen = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  /* One that was killed undid nothing. */
  if (!WIFEXITED(status)) (void)sandbox_thaw(launcher, sandbox, &(struct fault){0});
  answer_freezes(launcher, sandbox, WIFEXITED(status) ? WEXITSTATUS(status) : EINTR);
}

void freeze_yield(struct launcher *launcher, struct sandbox *sandbox) {
  stillness_yield(sandbox);
  if (sandbox->freezer == 0) return;
  stillness_end_group(sandbox->freezer);
  sandbox->freezer = 0;
  (void)sandbox_thaw(launcher, sandbox, &(struct fault){0});
  answer_freezes(launcher, sandbox, EINTR);
}
