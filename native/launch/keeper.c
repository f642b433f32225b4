/*
 * The daemon's keeper: see keeper.h. The daemon can't mend what its namespaces hang on, because it has given up the means
 * to make them. This process has kept them, and hears nothing of the daemon but how it ended: one exit code says "start
 * me again", another one "end the launcher first, which hangs". It reads no file but to see whether the helper's lock is held,
 * and whether there is one with the name that says that the helper hangs.
 *
 * A service manager, a shell and `squash serve --detach` see this process: signals are passed on, and its end is the
 * daemon's. The daemon goes with it (PR_SET_PDEATHSIG), so ending this one hard ends both.
 */
#include "launch/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/clock.h"
#include "launch/enter.h"
#include "launch/helper_process.h"
#include "launch/hung.h"
#include "launch/ids.h"
#include "launch/oom.h"
#include "common/syscalls.h"
#include "launch/title.h"

enum {
  /* EX_TEMPFAIL: main.ts of the daemon ends so where its launcher is gone. */
  EXIT_AGAIN = 75,
  /* The same where its launcher lives and does not answer. */
  EXIT_HUNG = 76,
  /* What `enter` ends with where it could not become the daemon. */
  EXIT_REFUSED = 1,
  /* As a sandbox's first process, which counts as failed when it dies once more. */
  AGAIN_MAX = 5,
  AGAIN_WINDOW_MS = 60000,
  AGAIN_FIRST_MS = 100,
  /* Whether the helper lives costs three system calls to see. A start looks for it by itself. */
  LOOK_MS = 1000,
  LOOK_FIRST_MS = 5000,
  /* A start may have the turn for so long; who keeps the lock longer is no start. */
  MENDER_MS = 60000,
  /* What it does takes 15 s at most, and whoever it is to end could stop it. */
  END_LAUNCHER_MS = 20000,
};

/* When something was last started again. */
struct turns {
  int64_t at_ms[AGAIN_MAX];
  unsigned count;
};

struct keeper {
  struct enter_options options;
  sigset_t heard;
  sigset_t before; /* what was blocked when this process began */
  int data_fd;
  pid_t daemon;
  pid_t mender; /* 0: none */
  int64_t mender_until_ms;
  int64_t look_at_ms;
  struct turns restarts;
  struct turns mends;
  bool has_given_up_mending;
  bool is_ending; /* somebody said so: nothing is started again */
};

static unsigned recent(const struct turns *turns) {
  unsigned found = 0;
  for (unsigned i = 0; i < AGAIN_MAX && i < turns->count; i++) found += now_ms() - turns->at_ms[i] < AGAIN_WINDOW_MS;
  return found;
}

static void note(struct turns *turns) { turns->at_ms[turns->count++ % AGAIN_MAX] = now_ms(); }

static pid_t fork_for(const struct keeper *keeper, int (*work)(const struct enter_options *options)) {
  pid_t pid = fork();
  if (pid != 0) return pid;
  close(keeper->data_fd);
  /* A terminal's Ctrl-C comes to this one as well: a launcher that hangs is ended all the same. */
  if (work != hung_end_launcher) sigprocmask(SIG_SETMASK, &keeper->before, NULL);
  _exit(work(&keeper->options));
}

static void look_for_helper(struct keeper *keeper) {
  if (!is_root_of_range() || now_ms() < keeper->look_at_ms) return;
  keeper->look_at_ms = now_ms() + LOOK_MS;
  if (keeper->mender > 0 && now_ms() > keeper->mender_until_ms) kill(keeper->mender, SIGKILL);
  if (keeper->mender > 0) return;
  /* What is there is the daemon's word, and costs it nothing but its own helper. */
  bool hangs = unlinkat(keeper->data_fd, "helper.hung", 0) == 0;
  cleanup_fd lock = helper_lock_now(keeper->data_fd);
  if (lock < 0 && !hangs) return;
  close_fd(&lock);
  bool is_too_often = recent(&keeper->mends) == AGAIN_MAX;
  if (is_too_often && !keeper->has_given_up_mending) {
    fprintf(stderr, "squash-launch: the privileged helper was started again %d times within a minute: it is not before "
                    "that is over\n", AGAIN_MAX);
  }
  keeper->has_given_up_mending = is_too_often;
  if (is_too_often) return;
  note(&keeper->mends);
  keeper->mender = fork_for(keeper, hangs ? hung_end_helper : enter_mend);
  keeper->mender_until_ms = now_ms() + MENDER_MS;
}

/* True where the daemon has ended; `status` says how. */
static bool reap(struct keeper *keeper, int *status) {
  int ended;
  bool is_over = false;
  for (pid_t pid; (pid = waitpid(-1, &ended, WNOHANG)) > 0;) {
    if (pid == keeper->mender) keeper->mender = 0;
    if (pid != keeper->daemon) continue;
    *status = ended;
    is_over = true;
  }
  return is_over;
}

static bool is_end(int number) { return number > 0 && number != SIGCHLD && number != SIGUSR1 && number != SIGUSR2; }

/* Until the daemon has ended. Returns how. */
static int attend(struct keeper *keeper) {
  const struct timespec look = {.tv_sec = LOOK_MS / 1000};
  for (int status = 0;;) {
    siginfo_t info;
    int number = sigtimedwait(&keeper->heard, &info, is_root_of_range() ? &look : NULL);
    bool is_passed_on = number > 0 && number != SIGCHLD;
    keeper->is_ending |= is_end(number);
    if (reap(keeper, &status)) return status;
    /* What the kernel sends, a terminal's Ctrl-C, the daemon gets by itself. */
    if (is_passed_on && info.si_code <= 0) kill(keeper->daemon, number);
    look_for_helper(keeper);
  }
}

static int end_as(int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  int number = WTERMSIG(status);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, number);
  setrlimit(RLIMIT_CORE, &(struct rlimit){0});
  signal(number, SIG_DFL);
  raise(number);
  sigprocmask(SIG_UNBLOCK, &only, NULL);
  return 128 + number;
}

static bool is_wanted_again(const struct keeper *keeper, int status) {
  if (!WIFEXITED(status)) return false;
  return WEXITSTATUS(status) == EXIT_AGAIN || WEXITSTATUS(status) == EXIT_HUNG || (keeper->restarts.count > 0 && WEXITSTATUS(status) == EXIT_REFUSED);
}

/* Its own id's rights are enough for it, and the keeper keeps its own. */
static void end_launcher(const struct keeper *keeper) {
  pid_t pid = fork_for(keeper, hung_end_launcher);
  if (pid < 0) return;
  cleanup_fd pidfd = sys_pidfd_open(pid);
  struct pollfd ended = {.fd = pidfd, .events = POLLIN};
  if (pidfd < 0 || poll(&ended, 1, END_LAUNCHER_MS) != 1) kill(pid, SIGKILL);
  while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
}

/* The first time at once, then longer and longer. Returns 0, or the signal that came meanwhile. */
static int wait_for_turn(const struct keeper *keeper) {
  unsigned times = recent(&keeper->restarts);
  int64_t until_ms = now_ms() + (times == 0 ? 0 : AGAIN_FIRST_MS << (times - 1));
  for (;;) {
    int64_t left_ms = until_ms > now_ms() ? until_ms - now_ms() : 0;
    const struct timespec left = {.tv_sec = left_ms / 1000, .tv_nsec = left_ms % 1000 * 1000000};
    int number = sigtimedwait(&keeper->heard, NULL, &left);
    if (is_end(number)) return number;
    if (number < 0 && left_ms == 0) return 0;
  }
}

static int keep(struct keeper *keeper) {
  for (;;) {
    keeper->look_at_ms = now_ms() + LOOK_FIRST_MS;
    keeper->daemon = fork_for(keeper, enter_become);
    if (keeper->daemon < 0) {
      perror("squash-launch: can't fork");
      return EXIT_AGAIN;
    }
    int status = attend(keeper);
    if (!is_wanted_again(keeper, status)) return end_as(status);
    if (keeper->is_ending) return 0;
    if (recent(&keeper->restarts) == AGAIN_MAX) {
      fprintf(stderr, "squash-launch: the daemon was started again %d times within a minute: it is not once more\n",
              AGAIN_MAX);
      return end_as(status);
    }
    if (WEXITSTATUS(status) == EXIT_HUNG) end_launcher(keeper);
    int number = wait_for_turn(keeper);
    if (number > 0) return end_as(number); /* A signal alone is the status of who died of it. */
    note(&keeper->restarts);
    fputs("squash-launch: the daemon is started again\n", stderr);
  }
}

/* What the title is written over. */
static char **copy_words(int argc, char **argv) {
  char **words = calloc((size_t)argc + 1, sizeof *words);
  for (int i = 0; words != NULL && i < argc; i++) {
    if ((words[i] = strdup(argv[i])) == NULL) return NULL;
  }
  return words;
}

int keeper_main(int argc, char **argv) {
  static const int passed_on[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
  static struct keeper keeper;
  char **words = copy_words(argc, argv);
  if (words == NULL) return EXIT_AGAIN;
  int code = enter_read(argc, words, &keeper.options);
  if (code != 0) return code;
  title_set("squash-launch keeper %s", keeper.options.data);
  keeper.options.keeper = getpid();
  keeper.data_fd = open(keeper.options.data, O_PATH | O_DIRECTORY | O_CLOEXEC);
  sigemptyset(&keeper.heard);
  sigaddset(&keeper.heard, SIGCHLD);
  for (size_t i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++) sigaddset(&keeper.heard, passed_on[i]);
  sigprocmask(SIG_BLOCK, &keeper.heard, &keeper.before);
  oom_begin();
  (void)oom_spare(0, OOM_HELPER);
  code = keep(&keeper);
  if (keeper.mender > 0) {
    kill(keeper.mender, SIGKILL);
    (void)waitpid(keeper.mender, NULL, 0);
  }
  return code;
}
