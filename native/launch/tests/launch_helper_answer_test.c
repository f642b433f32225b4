/*
 * The launcher's side of the helper's answers: whoever answers gives it no pointer and no text without an end, and a no to what
 * is tried is no yes.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/helper.h"
#include "launch/helper_verbs.h"
#include "launch/ids.h"
#include "launch/message.h"
#include "launch/overlay_probe.h"
#include "tests/check.h"

/* One that says no to a request, every other byte of its answer being the attacker's. */
static _Noreturn void answer_once(int socket, const char *code) {
  struct helper_request request;
  struct helper_answer answer;
  int reply;
  memset(&answer, 'A', sizeof answer);
  answer.is_fine = false;
  if (code != NULL) snprintf(answer.code, sizeof answer.code, "%s", code);
  if (message_receive_some(socket, &request, sizeof request, &reply, 1) != (ssize_t)sizeof request) _exit(1);
  _exit(message_send(reply, &answer, sizeof answer, NULL, 0) == 0 ? 0 : 1);
}

static void ask(const char *code, const char *wanted) {
  int ends[2];
  int status;
  struct fault fault = {0};
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  pid_t pid = fork();
  if (pid == 0) answer_once(ends[1], code);
  CHECK(helper_make_devices(ends[0], 0, &fault) == -1);
  CHECK(strcmp(fault.code, wanted) == 0);
  CHECK(strnlen(fault.text, sizeof fault.text) == sizeof fault.text - 1);
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  close(ends[0]);
  close(ends[1]);
}

/* As on a file system that has no maps of ids. The helper says so, and no system call of the launcher's fails. */
static void try_ranges(void) {
  char path[] = "/tmp/launch-answer-XXXXXX";
  char why[128];
  int ends[2];
  int status;
  CHECK(mkdtemp(path) != NULL && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  cleanup_fd data = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const struct launcher launcher = {.data_fd = data, .helper_fd = ends[0]};
  const struct overlay_trial trial = {.root_id = ROOT_RANGE_IDS};
  pid_t pid = fork();
  if (pid == 0) answer_once(ends[1], "launch_failed");
  CHECK(!overlay_probe(&launcher, trial, why, sizeof why));
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  CHECK(unlinkat(data, "tmp", AT_REMOVEDIR) == 0 && unlinkat(data, "trash", AT_REMOVEDIR) == 0 && rmdir(path) == 0);
  close(ends[0]);
  close(ends[1]);
}

int main(void) {
  if (geteuid() == 0) try_ranges(); /* Nobody else has ranges to give. */
  ask("disk_full", "disk_full");
  ask("a code of nobody", "launch_failed");
  ask(NULL, "launch_failed");
  return check_summary();
}
