/*
 * Commands: see commands.h. The child runs nothing but system calls between fork and execve, and says through a close-on-exec pipe
 * why it came no further: its end without a byte is the proof that the program runs.
 */
#include "vmm/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/pid_one.h"
#include "common/set_id.h"
#include "vmm/connection.h"
#include "vmm/console.h"
#include "vmm/disk.h"
#include "vmm/link.h"
#include "vmm/memory.h"
#include "vmm/request.h"
#include "vmm/tsc.h"

enum { LOOK_MS = 10, AWAITED_MS = VMM_CONTROL_MS, NAME_BYTES_MAX = 64 };

static struct start_request request;
static pid_t pids[VMM_COMMANDS_MAX];
static unsigned next;          /* the command that is begun, or awaited, or to be begun */
static bool is_asked;
static bool is_failed;
static bool is_over;
static int64_t awaited_until_ms; /* 0: nothing is awaited */
static struct connection *asker;
static int null_fd = -1;

int commands_prepare(void) {
  null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  return null_fd < 0 ? -1 : 0;
}

bool commands_are_over(void) { return is_over; }

unsigned commands_running(void) {
  unsigned running = 0;
  for (unsigned i = 0; i < request.command_count; i++) running += pids[i] > 0 ? 1 : 0;
  return running;
}

void commands_lost_client(const struct connection *connection) {
  if (asker == connection) asker = NULL;
}

static const char *name_of(unsigned index) {
  const char *name = request.commands[index].words[0];
  const char *slash = strrchr(name, '/');
  return slash == NULL ? name : slash + 1;
}

static void fail(unsigned index, int number, const char *what) {
  char message[256];
  is_failed = true;
  awaited_until_ms = 0;
  links_give_up();
  if (asker == NULL) return;
  (void)snprintf(message, sizeof message, "%.*s %s", NAME_BYTES_MAX, name_of(index), what);
  connection_refuse(asker, "vmm_failed", number, message);
  asker = NULL;
}

struct new_path {
  char text[256];
};

/* What is unfinished has this name, so that an end in the middle leaves nothing that looks finished. */
static struct new_path new_of(const char *path) {
  struct new_path made;
  (void)snprintf(made.text, sizeof made.text, "%s.new", path);
  return made;
}

/* Its status is the errno: a command that is started has no other word. */
static _Noreturn void unpack(const struct command *command) {
  (void)close(3);
  _exit(disk_unpack(command->words[0], new_of(command->makes).text));
}

static _Noreturn void cut(const struct command *command) {
  (void)close(3);
  _exit(disk_behind(command->words[0], command->words[1], new_of(command->makes).text));
}

static _Noreturn void remember(int status) {
  (void)close(status);
  _exit(memory_fill());
}

/* PID 1 keeps 0, 1 and 2 occupied, so no source is overwritten before it is copied; `status` and the memory may each be where the other is to be. */
static bool place(int output, int status) {
  int memory = memory_fd();
  if (dup2(null_fd, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0) return false;
  int kept = fcntl(status, F_DUPFD_CLOEXEC, MEMORY_FD + 1);
  if (kept < 0 || (memory >= 0 && memory != MEMORY_FD && dup2(memory, MEMORY_FD) < 0)) return false;
  if (memory == MEMORY_FD && set_close_on_exec(MEMORY_FD, false) != 0) return false;
  if (dup3(kept, 3, O_CLOEXEC) != 3) return false;
  close_from(memory < 0 ? MEMORY_FD : MEMORY_FD + 1);
  return true;
}

static _Noreturn void run_child(const struct command *command, char *const *words, int output, int status) {
  bool is_fit = command->serves_files || pid_one_disarm() == 0;
  if (is_fit && command->remembers) remember(status);
  if (is_fit && place(output, status)) {
    (void)setsid();
    pid_one_child_goes_first();
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (command->unpacks) unpack(command);
    if (command->cuts) cut(command);
    if (!command->serves_files || set_id_begin() == 0) (void)execvp(words[0], words);
  }
  int number = errno;
  /* Less than PIPE_BUF into an empty pipe: all or nothing. */
  ssize_t ignored = write(3, &number, sizeof number);
  (void)ignored;
  _exit(127);
}

/* Returns 0 or an errno. */
static int spawn(unsigned index) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return errno;
  cleanup_fd output = ends[0];
  cleanup_fd output_end = ends[1];
  if (set_blocking(output, false) != 0 || pipe2(ends, O_CLOEXEC) != 0) return errno;
  cleanup_fd status = ends[0];
  cleanup_fd status_end = ends[1];
  const struct command *command = &request.commands[index];
  if (command->remembers && memory_open(command->words[0]) != 0) return errno;
  memory_mark(command->words);
  char *const *words = tsc_words(command->words);
  pid_t pid = fork();
  if (pid < 0) return errno;
  if (pid == 0) run_child(command, words, output_end, status_end);
  close_fd(&status_end);
  close_fd(&output_end);
  console_listen(take_fd(&output));
  int number;
  if (read_whole(status, &number, sizeof number) == 1) return number; /* Its end is an orphan's. */
  pids[index] = pid;
  return 0;
}

static bool is_made(const struct command *command) {
  if (command->makes == NULL) return false;
  if (access(command->makes, F_OK) == 0) return true;
  (void)unlink(new_of(command->makes).text);
  return false;
}

/* Begins what can be begun now. */
static void advance(void) {
  while (!is_failed && next < request.command_count && pids[next] == 0) {
    const struct command *command = &request.commands[next];
    if (command->unpacks || command->cuts) links_are_ready();
    if (is_made(command)) {
      next++;
      continue;
    }
    int number = spawn(next);
    if (number != 0) {
      fail(next, number, "can't be started");
      return;
    }
    if (!command->stays) return; /* Its end brings the next. */
    if (command->awaits != NULL) {
      awaited_until_ms = clock_ms() + AWAITED_MS;
      return;
    }
    next++;
  }
  if (is_failed || next < request.command_count) return;
  if (pid_one_disarm() != 0) {
    fail(next - 1, errno, "runs, and capabilities can't be given up");
    return;
  }
  if (asker == NULL) return;
  connection_ok(asker);
  asker = NULL;
}

void commands_request(struct connection *connection, uint8_t *payload, size_t length) {
  if (is_asked) {
    connection_refuse(connection, "bad_request", EEXIST, "the VMM was started before");
    return;
  }
  const char *wrong = start_request_parse(payload, length, &request);
  if (wrong != NULL) {
    connection_refuse(connection, "bad_request", EINVAL, wrong);
    return;
  }
  is_asked = true;
  if (links_start(request.socket, request.control) != 0) {
    is_failed = true;
    int number = errno;
    links_give_up();
    connection_refuse(connection, "vmm_failed", number, "the socket that the guest tells its start by");
    return;
  }
  asker = connection;
  connection->kind = CONNECTION_STARTING;
  watch_for_hangup(&connection->watch);
  advance();
}

void commands_child_ended(pid_t pid, int wait_status) {
  unsigned index = 0;
  while (index < request.command_count && pids[index] != pid) index++;
  if (index == request.command_count) return;
  char what[64];
  bool is_fine = !request.commands[index].stays && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0;
  pids[index] = -1;
  if (WIFEXITED(wait_status)) (void)snprintf(what, sizeof what, "ended with %d", WEXITSTATUS(wait_status));
  else (void)snprintf(what, sizeof what, "was ended by signal %d", WTERMSIG(wait_status));
  const char *makes = request.commands[index].makes;
  if (is_fine && makes != NULL && rename(new_of(makes).text, makes) != 0) {
    fail(index, errno, "did not make what it should");
    return;
  }
  if (is_fine && index == next) {
    next++;
    advance();
  } else if (!is_fine) {
    fail(index, 0, what);
    is_over = is_over || request.commands[index].stays;
  }
}

/* A name that is there says nothing: it may be of an earlier life, and asking by a connection would take the one that is meant for another. */
static bool is_listening(const char *path) {
  enum { ACCEPTS = 1 << 16 }; /* __SO_ACCEPTCON */
  FILE *file = fopen("/proc/net/unix", "re");
  if (file == NULL) return false;
  char line[512];
  bool is_found = false;
  while (!is_found && fgets(line, sizeof line, file) != NULL) {
    unsigned flags;
    int at = 0;
    /* Num RefCount Protocol Flags Type St Inode Path */
    if (sscanf(line, "%*s %*s %*s %x %*s %*s %*s %n", &flags, &at) != 1 || at == 0 || (flags & ACCEPTS) == 0) continue;
    line[strcspn(line, "\n")] = '\0';
    is_found = strcmp(line + at, path) == 0;
  }
  (void)fclose(file);
  return is_found;
}

int commands_turn(void) {
  if (awaited_until_ms == 0) return -1;
  if (is_listening(request.commands[next].awaits)) {
    awaited_until_ms = 0;
    next++;
    advance();
  } else if (clock_ms() >= awaited_until_ms) {
    fail(next, ETIMEDOUT, "does not listen");
  }
  return awaited_until_ms == 0 ? -1 : LOOK_MS;
}
