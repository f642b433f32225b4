/*
 * `squash-launch enter --data D --run R --app A [--init I] [--filter node] -- command…`
 *
 * Runs outside the daemon's namespaces with the rights of whoever started Squash, and is the last of our code
 * that has them. Under the data directory's locks it looks for a living launcher and joins its user and mount namespace; where none
 * lives it ends what a dead one left behind, makes the namespaces and forks the resident launcher into them. Then
 * it becomes the command with the same process id, so that a service manager keeps watching the right process.
 *
 * Joining trusts the peer's process id of a socket in R, which belongs to us (as root: to the dedicated range,
 * where nothing but this data directory's own processes runs).
 */
#include "launch/enter.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/netlink.h>
#include <linux/securebits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/attach.h"
#include "launch/become.h"
#include "launch/cgroup.h"
#include "launch/claim.h"
#include "common/clock.h"
#include "common/fault.h"
#include "common/file.h"
#include "launch/helper_process.h"
#include "launch/host_filter.h"
#include "launch/ids.h"
#include "launch/launcher_record.h"
#include "launch/leftover.h"
#include "launch/mend.h"
#include "launch/oom.h"
#include "launch/own_files.h"
#include "launch/owner.h"
#include "launch/resident.h"
#include "launch/socket.h"
#include "common/syscalls.h"
#include "launch/title.h"

/* What `enter` has open of its directories, and the claim on the data directory: see claim.h. */
struct place {
  int data_fd;
  int run_fd;
  int claim;
};

/* Joins the namespaces of the launcher at the other end. Returns 1 when joined, 0 when it is gone meanwhile: one that is
   being killed gives up its namespaces a moment before its sockets. */
static int join(int connection, const struct ucred *peer, struct fault *fault) {
  uid_t wanted = ids_daemon_user();
  errno = 0;
  if (peer->uid != wanted) {
    return fault_set(fault, "launch_failed", "launch.sock belongs to uid %u instead of %u", peer->uid, wanted);
  }
  cleanup_fd pidfd = sys_pidfd_open(peer->pid);
  if (pidfd < 0) return 0;
  /* Still connected after the process was pinned: the id was not used again for somebody else. */
  struct pollfd hangup = {.fd = connection, .events = POLLIN | POLLRDHUP};
  if (poll(&hangup, 1, 0) != 0) return 0;
  /* Between joining and giving up our id whoever lives in there could trace us, and we may be the host's root. */
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  if (setns(pidfd, CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    if (errno == ESRCH) return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* Else nobody could write our maps. */
    return fault_set(fault, "launch_failed", "can't join the namespaces of process %d", peer->pid);
  }
  return become_inner_root(fault) != 0 ? -1 : 1;
}

/* The outside half of making the namespaces: a child that keeps the caller's rights until the launcher runs. */
struct outside {
  int socket;
  pid_t pid;
};

struct outside_answer {
  bool is_fine;
  bool is_single;
  char why[128];
  struct fault fault;
};

static _Noreturn void outside_main(int socket, pid_t target, const struct cgroup_setup *cgroups) {
  char byte;
  pid_t resident;
  struct outside_answer answer = {.is_single = ids_want_single()};
  if (read_whole(socket, &byte, 1) != 1) _exit(1);
  answer.is_fine =
      ids_write_maps(target, &answer.is_single, answer.why, sizeof answer.why, &answer.fault) == 0;
  if (write_whole(socket, &answer, sizeof answer) != 0) _exit(1);
  if (read_whole(socket, &resident, sizeof resident) != 1) _exit(1);
  cgroup_place_launcher(cgroups, resident);
  (void)oom_spare(resident, OOM_LAUNCHER);
  launcher_record_write(cgroups->name, resident);
  _exit(write_whole(socket, &byte, 1) == 0 ? 0 : 1);
}

static int outside_start(struct outside *outside, const struct cgroup_setup *cgroups, struct fault *fault) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return fault_set(fault, "launch_failed", "can't make a socket pair");
  }
  pid_t target = getpid();
  outside->pid = fork();
  if (outside->pid == 0) {
    close(pair[0]);
    outside_main(pair[1], target, cgroups);
  }
  close(pair[1]);
  outside->socket = pair[0];
  return outside->pid > 0 ? 0 : fault_set(fault, "launch_failed", "can't fork");
}

/* Forks the launcher away from us (its parent becomes the host's init) and waits until it listens. */
static pid_t resident_start(struct resident_options *options, struct fault *fault) {
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0) return fault_set(fault, "launch_failed", "can't make a pipe");
  cleanup_fd reader = ready[0];
  cleanup_fd writer = ready[1];
  pid_t between = fork();
  if (between == 0) {
    if (fork() == 0) {
      close(reader);
      options->ready_fd = writer;
      _exit(resident_main(options));
    }
    _exit(0);
  }
  if (between < 0) return fault_set(fault, "launch_failed", "can't fork");
  close_fd(&writer);
  while (waitpid(between, NULL, 0) < 0 && errno == EINTR) continue;
  struct resident_ready answer;
  errno = 0;
  if (read_whole(reader, &answer, sizeof answer) != 1) {
    return fault_set(fault, "launch_failed", "the launcher ended before it listened");
  }
  if (answer.pid > 0) return answer.pid;
  *fault = answer.fault;
  fault->code = "launch_failed"; /* A pointer does not survive the way here in general; this one code does. */
  return -1;
}

/*
 * Inotify instances, queued signals, timers and the like that exist in a user namespace are counted against the id
 * that made it, too. Where that is host root, one sandbox could use up what the host's own services need: so the
 * daemon's id makes it. The capabilities stay where they may, for hosts where only they make one.
 */
static int unshare_as_daemon(void) {
  struct counted_limits before;
  if (!is_root_of_range()) return unshare(CLONE_NEWUSER | CLONE_NEWNS);
  if (lift_counted_limits(&before) != 0) return -1;
  (void)prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0);
  if (seteuid(ROOT_RANGE_FIRST) != 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return -1;
  return restore_counted_limits(&before);
}

static int enter_new_namespaces(const struct enter_options *options, struct fault *fault) {
  if (is_root_of_range()) {
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0) {
      return fault_set(fault, "launch_failed", "can't make a mount namespace");
    }
    char program[PATH_MAX];
    struct attachment wanted[] = {{.path = options->app},
                                  {.path = program_directory(options->command[0], program)},
                                  {.path = options->data, .is_writable = true},
                                  {.path = options->run, .is_writable = true}};
    /* What lies below the data directory comes along with it, and nobody but the daemon could say what that is. */
    size_t count = options->run_below == NULL ? 4 : 3;
    if (attach_unreachable(wanted, count, fault) != 0) return -1;
  }
  if (unshare_as_daemon() != 0) {
    return fault_set(fault, "launch_failed",
                     "can't make a user namespace (see `squash doctor`: user namespaces may be switched off)");
  }
  return 0;
}

static int start_helper(struct resident_options *resident, int data_fd, struct fault *fault) {
  cleanup_fd lock = helper_lock(data_fd, resident->cgroups.name, fault);
  if (lock < 0) return -1;
  /* Once more: the earlier helper may have removed what was found or made before it ended. */
  cgroup_setup_close(&resident->cgroups);
  cgroup_prepare(&resident->cgroups, resident->data);
  int ends[2];
  if (helper_pair(ends, fault) != 0) return -1;
  cleanup_fd own = ends[1];
  resident->helper_fd = ends[0];
  return helper_start(&(struct helper){own, lock, data_fd, &resident->cgroups}, fault);
}

/* Where a run directory was changed, what the launcher beside the earlier one left is ended as well. */
static int end_leftovers(const struct enter_options *options, const struct place *place, struct fault *fault) {
  char before[PATH_MAX];
  claim_read(place->claim, before);
  cleanup_fd earlier = strcmp(before, options->run) == 0 ? -1 : open(before, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat status;
  /* What the file names is the daemon's word: root goes nowhere else for it. */
  bool is_ours = earlier >= 0 && fstat(earlier, &status) == 0 && (!is_root_of_range() || owner_is_of_range(status.st_uid));
  if (is_ours && leftover_end(earlier, before, fault) != 0) return -1;
  if (leftover_end(place->run_fd, options->run, fault) != 0) return -1;
  return claim_write(place->claim, options->run, fault);
}

/* Where AppArmor restricts user namespaces (Ubuntu) anybody may make one, and nothing can be done in it. */
static int blame_apparmor(struct fault *fault) {
  char label[160];
  if (text_file_read(AT_FDCWD, "/proc/self/attr/apparmor/current", label, sizeof label) <= 0) return -1;
  label[strcspn(label, "\n")] = '\0';
  if (strcmp(label, "unconfined") == 0 || strstr(label, "(unconfined)") != NULL) return -1;
  errno = 0;
  return fault_set(fault, "launch_failed",
                   "AppArmor's profile \"%s\" lets this program make a user namespace and do nothing in it (see `squash doctor`)",
                   label);
}

static int become_launcher(const struct enter_options *options, int outside, struct outside_answer *answer,
                           struct fault *fault) {
  if (enter_new_namespaces(options, fault) != 0) return -1;
  if (write_whole(outside, "m", 1) != 0 || read_whole(outside, answer, sizeof *answer) != 1) {
    return fault_set(fault, "launch_failed", "the helper that maps ids ended early");
  }
  if (!answer->is_fine) {
    *fault = answer->fault;
    return -1;
  }
  if (become_inner_root(fault) != 0) return -1;
  if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0) return 0;
  return fault_set(fault, "launch_failed", "can't detach mount propagation");
}

static int make(const struct enter_options *options, const struct place *place, struct fault *fault) {
  struct resident_options resident = {.data = options->data, .run = options->run, .helper_fd = -1};
  if (resident_open_programs(&resident, options->init, fault) != 0) return -1;
  /* Control groups first: a leftover that is frozen has to be thawed before it can end. */
  cgroup_prepare(&resident.cgroups, options->data);
  if (end_leftovers(options, place, fault) != 0 ||
      (is_root_of_range() && start_helper(&resident, place->data_fd, fault) != 0)) {
    cgroup_dissolve(&resident.cgroups); /* From here on it is the helper's work, or the launcher's. */
    return -1;
  }
  struct outside outside = {.socket = -1};
  if (outside_start(&outside, &resident.cgroups, fault) != 0) return -1;
  cleanup_fd socket = outside.socket;
  struct outside_answer answer;
  if (become_launcher(options, socket, &answer, fault) != 0) return blame_apparmor(fault);
  resident.is_single = answer.is_single;
  resident.single_reason = answer.why;
  pid_t pid = resident_start(&resident, fault);
  if (pid < 0) return -1;
  char byte;
  if (write_whole(socket, &pid, sizeof pid) != 0 || read_whole(socket, &byte, 1) != 1) {
    return fault_set(fault, "launch_failed", "the helper that places the launcher in its cgroup ended early");
  }
  while (waitpid(outside.pid, NULL, 0) < 0 && errno == EINTR) continue;
  if (resident.helper_fd >= 0) close(resident.helper_fd);
  cgroup_setup_close(&resident.cgroups);
  resident_close_programs(&resident);
  return 0;
}

/* One that was killed takes connections until its last file is closed. Nobody waits for one that lives but who is refused. */
enum { DYING_MS = 1000 };

static bool lives_on(int connection, const struct ucred *peer) {
  cleanup_fd pidfd = sys_pidfd_open(peer->pid);
  if (pidfd < 0) return false;
  struct pollfd ends[] = {{.fd = pidfd, .events = POLLIN}, {.fd = connection, .events = POLLIN | POLLRDHUP}};
  return poll(ends, 2, DYING_MS) == 0;
}

/* Does the launcher that has the claim live beside another run directory than ours? */
static int refuse_elsewhere(const struct enter_options *options, const struct place *place, struct fault *fault) {
  char other[PATH_MAX];
  claim_read(place->claim, other);
  if (strcmp(other, options->run) == 0) return 0;
  cleanup_fd run_fd = open(other, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct ucred peer;
  cleanup_fd connection = run_fd < 0 ? -1 : launcher_connect(run_fd, &peer);
  bool is_alive = connection >= 0 && lives_on(connection, &peer);
  errno = 0;
  if (!is_alive) return 0;
  return fault_set(fault, "data_locked",
                   "sandboxes of \"%s\" live beside the run directory \"%s\": set SQUASH_RUN to that one, or end them "
                   "there first with `squash stop --all`",
                   options->data, other);
}

/* A launcher of the first protocol makes no claim. Its title, which it alone writes, says whose it is. */
static bool is_unclaimed(const struct ucred *peer, const char *data) {
  char wanted[PATH_MAX + 64];
  snprintf(wanted, sizeof wanted, "squash-launch resident %s", data);
  return title_is(peer->pid, wanted);
}

/* Before anything is ended or made: is there nobody who works here? */
static int make_alone(const struct enter_options *options, const struct place *place, struct fault *fault) {
  struct ucred peer;
  cleanup_fd stranger = launcher_connect(place->run_fd, &peer);
  int joined = stranger >= 0 && is_unclaimed(&peer, options->data) ? join(stranger, &peer, fault) : 0;
  if (joined != 0) return joined < 0 ? -1 : 0;
  bool is_taken = stranger >= 0 && lives_on(stranger, &peer);
  errno = 0;
  if (is_taken) {
    return fault_set(fault, "data_locked",
                     "the run directory \"%s\" is in use for another data directory than \"%s\": set SQUASH_RUN to one "
                     "of its own",
                     options->run, options->data);
  }
  if (claim_has_daemon(place->data_fd)) {
    return fault_set(fault, "data_locked",
                     "a daemon works in \"%s\" and its launcher has ended: stop that daemon (`squash stop`) and start "
                     "again",
                     options->data);
  }
  return make(options, place, fault);
}

/* Sandboxes without a helper are better than none: it is said, and no more. */
static void mend_before_joining(const struct enter_options *options, const struct place *place) {
  struct fault fault = {0};
  if (!is_root_of_range() || mend_helper(options->data, place->data_fd, place->run_fd, &fault) == 0) return;
  fprintf(stderr, "squash-launch: %s\n", fault.text);
}

/* A launcher that ends holds its claim until its last file is closed; a loaded machine takes longer than milliseconds. */
enum { CLAIM_MS = 15000, CLAIM_POLL_MS = 5 };

static int join_or_make(const struct enter_options *options, const struct place *place, struct fault *fault) {
  for (int64_t deadline = now_ms() + CLAIM_MS; now_ms() < deadline; sleep_ms(CLAIM_POLL_MS)) {
    if (claim_take(place->claim)) return make_alone(options, place, fault);
    struct ucred peer;
    cleanup_fd connection = launcher_connect(place->run_fd, &peer);
    if (connection >= 0) mend_before_joining(options, place);
    int joined = connection < 0 ? 0 : join(connection, &peer, fault);
    if (joined != 0) return joined < 0 ? -1 : 0;
    if (refuse_elsewhere(options, place, fault) != 0) return -1;
  }
  errno = 0;
  return fault_set(fault, "data_locked", "the launcher of \"%s\" neither answers nor ends", options->data);
}

/* Opens the place, waits for its turn there, and does `work`. */
static int in_turn(const struct enter_options *options,
                   int (*work)(const struct enter_options *, const struct place *, struct fault *), struct fault *fault) {
  cleanup_fd data_fd = owner_open(options->data, options->data_given, fault);
  if (data_fd < 0) return -1;
  cleanup_fd run_fd = options->run_below == NULL ? owner_open(options->run, options->run_given, fault)
                                                 : owner_open_below(data_fd, options->run_below, fault);
  if (run_fd < 0) return -1;
  cleanup_fd turn = claim_turn(data_fd, options->data, fault);
  if (turn < 0) return -1;
  cleanup_fd claim = claim_open(data_fd, options->data, fault);
  if (claim < 0) return -1;
  int result = work(options, &(struct place){data_fd, run_fd, claim}, fault);
  /* Explicitly: the launcher and the helper were forked with the turn's descriptor, which closing here leaves. */
  (void)flock(turn, LOCK_UN);
  return result;
}

/*
 * The kernel's word on whose a connection is (host/src/http/connection-owner.ts): it names ids as they are where this
 * socket was opened, which has to be out here. It takes the place of standard input, which the daemon does not read:
 * Node hands that on to itself when it starts anew, and to no child.
 */
static int owners_open(void) {
  return socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
}

static void owners_hand_over(int owners, uid_t starter) {
  char text[16];
  snprintf(text, sizeof text, "%u", starter);
  (void)unsetenv("SQUASHD_STARTER");
  if (owners > 0 && dup2(owners, STDIN_FILENO) == STDIN_FILENO) (void)setenv("SQUASHD_STARTER", text, 1);
}

/* Without a launcher there is nobody to hand a helper to: the next `enter` makes both. */
static int mend_living(const struct enter_options *options, const struct place *place, struct fault *fault) {
  return claim_take(place->claim) ? 0 : mend_helper(options->data, place->data_fd, place->run_fd, fault);
}

static int tell(const struct fault *fault) {
  fprintf(stderr, "squash-launch: %s (%s)\n", fault->text, fault->code);
  return 1;
}

int enter_mend(const struct enter_options *options) {
  struct fault fault = {0};
  return in_turn(options, mend_living, &fault) == 0 ? 0 : tell(&fault);
}

static bool parse(int argc, char **argv, struct enter_options *options) {
  int i = 2;
  for (; i + 1 < argc && strcmp(argv[i], "--") != 0; i += 2) {
    if (strcmp(argv[i], "--data") == 0) options->data = argv[i + 1];
    else if (strcmp(argv[i], "--run") == 0) options->run = argv[i + 1];
    else if (strcmp(argv[i], "--app") == 0) options->app = argv[i + 1];
    else if (strcmp(argv[i], "--init") == 0) options->init = argv[i + 1];
    else if (strcmp(argv[i], "--read") == 0) options->read = argv[i + 1];
    else if (strcmp(argv[i], "--login") == 0) options->login = argv[i + 1];
    else if (strcmp(argv[i], "--vmm") == 0) options->vmm = argv[i + 1];
    else if (strcmp(argv[i], "--filter") == 0 && strcmp(argv[i + 1], "node") == 0) options->filter = argv[i + 1];
    else return false;
  }
  if (i + 1 >= argc || options->data == NULL || options->run == NULL || options->app == NULL) return false;
  options->command = argv + i + 1;
  return true;
}

/* What the daemon never asks of the kernel, and the files that it never opens. */
static int hold(const struct enter_options *options, struct fault *fault) {
  char program[PATH_MAX];
  if (program_path(options->command[0], program) == NULL) return 0; /* execvp says so. */
  const struct own_files files = {options->data, options->run, options->app, program, options->read, options->login, options->vmm};
  return own_files_daemon(&files, fault) != 0 ? -1 : host_filter_load(HOST_FILTER_NODE, fault);
}

/* A run directory below the data directory keeps the way it was named by: what lies there is not to be followed. */
static bool resolve(struct enter_options *options, char resolved[][PATH_MAX]) {
  const char **paths[] = {&options->data, &options->app, &options->run};
  options->data_given = options->data;
  options->run_given = options->run;
  options->run_below = owner_path_below(options->run, options->data);
  for (int i = 0; i < (options->run_below == NULL ? 3 : 2); i++) {
    if (realpath(*paths[i], resolved[i]) == NULL) {
      fprintf(stderr, "squash-launch: no directory \"%s\": %s\n", *paths[i], strerror(errno));
      return false;
    }
    *paths[i] = resolved[i];
  }
  if (options->run_below == NULL) return true;
  int length = snprintf(resolved[2], PATH_MAX, "%s/%s", options->data, options->run_below);
  options->run = resolved[2];
  return length > 0 && length < PATH_MAX;
}

int enter_read(int argc, char **argv, struct enter_options *options) {
  static char resolved[4][PATH_MAX];
  *options = (struct enter_options){0};
  if (!parse(argc, argv, options)) {
    fprintf(stderr,
            "usage: squash-launch %s --data DIR --run DIR --app DIR [--init FILE] [--read FILE] [--login FILE] [--vmm FILE] [--filter node] -- COMMAND…\n", argv[1]);
    return 2;
  }
  if (options->init == NULL && program_directory("/proc/self/exe", resolved[3]) != NULL) {
    strncat(resolved[3], "/squash-init", sizeof resolved[3] - strlen(resolved[3]) - 1);
    options->init = resolved[3];
  }
  return resolve(options, resolved) ? 0 : 1;
}

static int report(const char *verb, const char *what) {
  fprintf(stderr, "squash-launch: can't %s \"%s\": %s\n", verb, what, strerror(errno));
  return 1;
}

int enter_become(const struct enter_options *options) {
  struct fault fault = {0};
  (void)umask(022); /* A sandbox's root is for all its users, and the way to the project for the daemon's id. */
  raise_open_files_limit();
  oom_begin();
  uid_t starter = geteuid();
  cleanup_fd owners = owners_open();
  if (in_turn(options, join_or_make, &fault) != 0) return tell(&fault);
  if (chdir(options->app) != 0) return report("enter", options->app);
  /* Nothing the daemon starts may gain rights by a set-uid file of the host. */
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  raise_open_files();
  oom_settle();
  /* Last of all: who changes ids is forgotten as a child. Its signals are the keeper's, so it does not outlive it. */
  bool is_left = options->keeper != 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != options->keeper);
  if (is_left) return 1;
  if (options->filter != NULL && hold(options, &fault) != 0) return tell(&fault);
  if (options->filter != NULL) owners_hand_over(owners, starter);
  execvp(options->command[0], options->command);
  (void)report("execute", options->command[0]);
  return 127;
}

int enter_main(int argc, char **argv) {
  struct enter_options options;
  int code = enter_read(argc, argv, &options);
  return code == 0 ? enter_become(&options) : code;
}
