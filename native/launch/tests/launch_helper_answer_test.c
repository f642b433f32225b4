/* The launcher's side of the helper's answers: whoever answers gives it no pointer and no text without an end. */
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/helper.h"
#include "launch/helper_verbs.h"
#include "launch/message.h"
#include "tests/check.h"

/* One that says no to a request, every other byte of its answer being the attacker's. */
static _Noreturn void answer_once(int socket, const char *code) {
  struct helper_request request;
  struct helper_answer answer;
  int reply;
  memset(&answer, 'A', sizeof answer);
  answer.is_fine = false;
  if (code != NULL) snprintf(answer.code, sizeof answer.code, "%s", code);
  if (message_receive(socket, &request, sizeof request, &reply) != (ssize_t)sizeof request) _exit(1);
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

int main(void) {
  ask("disk_full", "disk_full");
  ask("a code of nobody", "launch_failed");
  ask(NULL, "launch_failed");
  return check_summary();
}
