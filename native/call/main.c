/*
 * squash-call: `squash-call NODE PROGRAM words…` runs the command line, which is `NODE PROGRAM words…`; `squash-call --bare NODE …`
 * becomes that program with no descriptors but its first three, so that one which stands by holds nothing of who started it.
 *
 * Starting Node takes longer than all that a box needs. So after a box's command one more command line is started that stands by
 * (cli/src/box/standby.ts); the next call is handed to it, with our descriptors, directory and environment, and we are its ears: signals
 * go there, its exit code is ours. Where none stands by, or it is not in all like us, we become the program: that is always right.
 * Where no daemon runs either it is begun before that: it takes longer than a command line.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "call/call.h"
#include "call/start.h"
#include "common/descriptor.h"

extern char **environ;

enum { EXIT_KILLED = 137, EXIT_NO_PROGRAM = 70 };

/* Of the process that has our call. */
static int standby = -1;
static pid_t standby_pid;
static bool has_terminal;

/* A job in the background gets no terminal: its shell has it. */
static bool is_background(void) {
  pid_t group = tcgetpgrp(STDIN_FILENO);
  return group > 0 && group != getpgrp();
}

static void send_signal(int signal) { (void)syscall(SYS_pidfd_send_signal, standby, signal, NULL, 0); }

static void pass_signals(void);

/*
 * Who has our call wants the whole job stopped, as the terminal's own Ctrl-Z stops it: the kernel does not where no shell could continue it.
 * Meanwhile it stands still, too, lest it read what is typed for others.
 */
static void suspend_job(void) {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  send_signal(SIGSTOP);
  (void)signal(SIGTSTP, SIG_DFL);
  (void)kill(0, SIGTSTP);
  (void)sigprocmask(SIG_UNBLOCK, &stop, NULL); /* Here it stops. */
  pass_signals();
  send_signal(SIGCONT);
}

static void pass_on(int signal, siginfo_t *info, void *context) {
  (void)context;
  int saved = errno;
  if (signal == SIGCONT && has_terminal && is_background()) (void)raise(SIGSTOP);
  else if (signal == SIGTSTP && info->si_code == SI_USER && info->si_pid == standby_pid) suspend_job();
  else send_signal(signal);
  errno = saved;
}

/* As boxDataDirectory of box/src/daemon.ts. */
static bool find_data(char path[PATH_MAX]) {
  const char *named = getenv("SQUASH_BOX_DATA"), *state = getenv("XDG_STATE_HOME");
  const struct passwd *user = NULL;
  int length;
  if (named != NULL && *named != 0) {
    length = snprintf(path, PATH_MAX, "%s", named);
  } else if (state != NULL && *state == '/') {
    length = snprintf(path, PATH_MAX, "%s/squash/box", state);
  } else if ((user = getpwuid(geteuid())) != NULL) {
    length = snprintf(path, PATH_MAX, "%s/.local/state/squash/box", user->pw_dir);
  } else {
    return false;
  }
  return length >= 0 && length < PATH_MAX;
}

static bool find_socket(const char *data, struct sockaddr_un *address) {
  size_t size = sizeof address->sun_path;
  address->sun_family = AF_UNIX;
  int length = snprintf(address->sun_path, size, "%s/standby.sock", data);
  return length >= 0 && (size_t)length < size;
}

/* Some settings Node reads only when it starts. */
static bool is_plain_environment(void) {
  const char *wish = getenv("SQUASH_STANDBY");
  return getenv("NODE_OPTIONS") == NULL && getenv("NODE_DEBUG") == NULL && getenv("NODE_V8_COVERAGE") == NULL &&
         (wish == NULL || strcmp(wish, "off") != 0);
}

static int connect_standby(const char *data, pid_t *pid) {
  struct sockaddr_un address = {0};
  if (!find_socket(data, &address)) return -1;
  cleanup_fd connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct timeval wait = {.tv_sec = CALL_WAIT_MS / 1000};
  if (connection < 0 || setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait) < 0) return -1;
  if (connect(connection, (struct sockaddr *)&address, sizeof address) < 0) return -1;
  return is_own_peer(connection, pid) ? take_fd(&connection) : -1;
}

static void add(char *text, size_t *at, const char *string) {
  size_t length = strlen(string) + 1;
  memcpy(text + *at, string, length);
  *at += length;
}

/* All strings of the message for `program`, as argv has it; NULL where they are too many. */
static char *write_strings(char **program, struct call_head *head) {
  char caller[CALLER_BYTES], **words = program + 2;
  if (describe_caller(program[0], program[1], caller, sizeof caller) < 0) return NULL;
  size_t bytes = strlen(caller) + 1;
  for (char **word = words; *word != NULL; word++, head->words++) bytes += strlen(*word) + 1;
  for (char **entry = environ; *entry != NULL; entry++) bytes += strlen(*entry) + 1;
  if (bytes > CALL_BYTES_MAX) return NULL;
  char *text = malloc(bytes);
  if (text == NULL) return NULL;
  size_t at = 0;
  add(text, &at, caller);
  for (char **word = words; *word != NULL; word++) add(text, &at, *word);
  for (char **entry = environ; *entry != NULL; entry++) add(text, &at, *entry);
  head->bytes = (uint32_t)bytes;
  return text;
}

static bool send_call(int connection, char **program) {
  struct call_head head = {.magic = CALL_MAGIC};
  mode_t mask = umask(0);
  (void)umask(mask);
  head.umask = mask;
  char *strings = write_strings(program, &head);
  bool sent = strings != NULL && write_whole(connection, &head, sizeof head) == 0 &&
              write_whole(connection, strings, head.bytes) == 0;
  free(strings);
  return sent;
}

static bool is_taken(int connection) {
  struct pollfd ready = {.fd = connection, .events = POLLIN};
  char answer = 0;
  return poll(&ready, 1, CALL_WAIT_MS) == 1 && read(connection, &answer, 1) == 1 && answer == CALL_TAKEN;
}

/* With our descriptors. */
static bool send_go(int connection) {
  cleanup_fd directory = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  const int descriptors[CALL_DESCRIPTORS] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO, directory};
  char go = CALL_GO;
  union {
    char bytes[CMSG_SPACE(sizeof descriptors)];
    struct cmsghdr align;
  } control = {0};
  struct iovec part = {.iov_base = &go, .iov_len = 1};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof descriptors);
  memcpy(CMSG_DATA(rights), descriptors, sizeof descriptors);
  return sendmsg(connection, &message, MSG_NOSIGNAL) == 1;
}

static void pass_signals(void) {
  static const int passed[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP, SIGCONT};
  struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_RESTART | SA_SIGINFO};
  for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) (void)sigaction(passed[i], &action, NULL);
}

/* The exit code of `program`, as argv has it, or -1 where nothing of it has run. */
static int hand_over(const char *data, char **program) {
  has_terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
  if (isatty(STDIN_FILENO) && is_background()) return -1;
  cleanup_fd connection = connect_standby(data, &standby_pid);
  if (connection < 0) return -1;
  /* While the connection stands its number is no other's. */
  standby = (int)syscall(SYS_pidfd_open, standby_pid, 0);
  if (standby < 0 || !send_call(connection, program) || !is_taken(connection)) return -1;
  pass_signals();
  unsigned char answer[CALL_ANSWER_BYTES] = {CALL_REFUSED, 0};
  if (!send_go(connection)) return -1;
  if (read_whole(connection, answer, sizeof answer) == 1) return answer[0] == CALL_ENDED ? answer[1] : -1;
  (void)fputs("squash: the command line that had this call was killed (aborted)\n", stderr);
  return EXIT_KILLED;
}

static int become(char **words) {
  (void)execv(words[0], words);
  (void)fprintf(stderr, "squash: %s: %s\n", words[0], strerror(errno));
  return EXIT_NO_PROGRAM;
}

int main(int argc, char **argv) {
  if (argc > 2 && strcmp(argv[1], "--bare") == 0) {
    close_from(3);
    return become(argv + 2);
  }
  if (argc < 3) {
    (void)fputs("usage: squash-call NODE PROGRAM words...\n", stderr);
    return EXIT_NO_PROGRAM;
  }
  char data[PATH_MAX];
  if (is_plain_environment() && find_data(data)) {
    int code = hand_over(data, argv + 1);
    if (code >= 0) return code;
    start_daemon(data, argv[1], argv[2]);
  }
  /* Its command line starts the next one. */
  if (getenv("SQUASH_STANDBY") == NULL) (void)setenv("SQUASH_STANDBY", "on", 1);
  return become(argv + 1);
}
