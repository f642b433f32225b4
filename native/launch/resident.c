/*
 * The resident launcher: set up once, then one loop. It holds the daemon's namespaces by being in them, and outlives
 * every daemon; it ends on `shutdown` or SIGTERM, after the last sandbox.
 */
#include "launch/resident.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/become.h"
#include "launch/children.h"
#include "common/clock.h"
#include "launch/connection.h"
#include "launch/dial.h"
#include "launch/dial_out.h"
#include "launch/egress.h"
#include "common/file.h"
#include "launch/group.h"
#include "launch/helper_seat.h"
#include "launch/host_filter.h"
#include "launch/log.h"
#include "launch/memory_file.h"
#include "launch/overlay_probe.h"
#include "launch/ranges_probe.h"
#include "launch/relays.h"
#include "launch/room.h"
#include "launch/sandbox.h"
#include "launch/sandbox_end.h"
#include "launch/sandbox_start.h"
#include "launch/seccomp.h"
#include "launch/spread.h"
#include "launch/title.h"
#include "launch/verbs.h"
#include "launch/watchdog.h"

/* A file system of the largest upper is made within seconds on a slow disk. The daemon waits as long for the launcher
   (`launcherHungMs`). */
enum { HUNG_MS = 60000 };

/* Programs of the host are taken from its system directories only, whatever PATH the caller had. */
static const char *find_program(const char *name) {
  static const char *const directories[] = {"/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin"};
  for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directories[i], name);
    if (access(path, X_OK) == 0) return strdup(path);
  }
  return NULL;
}

static void signals_ready(struct launcher *launcher, struct source *source) {
  struct signalfd_siginfo info;
  while (read(source->fd, &info, sizeof info) == (ssize_t)sizeof info) {
    if (info.ssi_signo == SIGTERM) {
      log_line("SIGTERM: ending all sandboxes");
      launcher->is_ending = true;
      for (struct sandbox *at = launcher->sandboxes; at != NULL;) {
        struct sandbox *next = at->next;
        sandbox_end(launcher, at);
        at = next;
      }
    }
  }
  children_reap(launcher);
}

static int open_directories(struct launcher *launcher, const struct resident_options *options, struct fault *fault) {
  launcher->data_fd = open(options->data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  launcher->run_fd = open(options->run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (launcher->data_fd < 0 || launcher->run_fd < 0) {
    return fault_set(fault, "launch_failed", "can't open the data or run directory as the daemon's id");
  }
  static const char *const many[] = {"sandboxes", "tmp"};
  for (size_t i = 0; i < sizeof many / sizeof many[0]; i++) {
    (void)mkdirat(launcher->data_fd, many[i], 0700); /* As the daemon does a moment later. */
    cleanup_fd directory = openat(launcher->data_fd, many[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    spread_directory(directory);
  }
  if (mkdirat(launcher->run_fd, "g", 0700) != 0 && errno != EEXIST) {
    return fault_set(fault, "launch_failed", "can't make the directory of sockets");
  }
  launcher->sockets_fd = openat(launcher->run_fd, "g", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (launcher->sockets_fd < 0) return fault_set(fault, "launch_failed", "can't open the directory of sockets");
  spread_prepare(launcher->sockets_fd);
  return 0;
}

/* What one maker of user namespaces below ours may have: a sandbox, or in single-id mode all of them. The kernel gives
   a user of the host 128, and behind all sandboxes of a daemon stands one. Where it can't be set the 128 hold. */
static void limit_counted(const struct launcher *launcher) {
  (void)text_file_write(AT_FDCWD, "/proc/sys/user/max_inotify_instances", launcher->is_single ? "64" : "32");
}

static int set_up(struct launcher *launcher, const struct resident_options *options, struct fault *fault) {
  char why[128];
  if (open_directories(launcher, options, fault) != 0) return -1;
  const char *overlay = getenv("SQUASH_OVERLAY");
  launcher->overlays_by_fuse = overlay != NULL && strcmp(overlay, "fuse") == 0;
  launcher->bwrap = find_program("bwrap");
  launcher->mksquashfs = find_program("mksquashfs");
  launcher->unsquashfs = find_program("unsquashfs");
  launcher->fuse_overlayfs = find_program("fuse-overlayfs");
  if (!launcher->overlays_by_fuse && !overlay_probe(launcher, (struct overlay_trial){0}, why, sizeof why)) {
    launcher->overlays_by_fuse = true;
    log_line("no overlay by the kernel (%s): fuse-overlayfs is used", why);
  }
  ranges_probe(launcher);
  launcher->init_fd = memory_file_copy("squash-init", options->init_fd);
  launcher->vmm_fd = memory_file_copy("squash-vmm", options->vmm_fd);
  launcher->seccomp_fd = seccomp_file(&(struct seccomp_options){0});
  launcher->tool_seccomp_fd = seccomp_file(&(struct seccomp_options){.pretends_chown = launcher->is_single});
  if (launcher->init_fd < 0 || launcher->vmm_fd < 0 || launcher->seccomp_fd < 0 || launcher->tool_seccomp_fd < 0) {
    return fault_set(fault, "launch_failed", "can't keep squash-init, squash-vmm and the filter in memory");
  }
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  raise_open_files();
  limit_counted(launcher);
  sigset_t waited;
  sigemptyset(&waited);
  sigaddset(&waited, SIGCHLD);
  sigaddset(&waited, SIGTERM);
  sigprocmask(SIG_BLOCK, &waited, NULL);
  launcher->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  launcher->child_signals.fd = signalfd(-1, &waited, SFD_CLOEXEC | SFD_NONBLOCK);
  launcher->child_signals.ready = signals_ready;
  if (launcher->epoll_fd < 0 || launcher->child_signals.fd < 0 ||
      source_add(launcher, &launcher->child_signals) != 0 || helper_seat_watch(launcher) != 0 ||
      connections_listen(launcher) != 0) {
    return fault_set(fault, "launch_failed", "can't listen on launch.sock");
  }
  return 0;
}

/* A test waits for less. */
static int64_t hung_ms(void) {
  const char *given = getenv("SQUASH_HUNG_MS");
  long ms = given == NULL ? 0 : strtol(given, NULL, 10);
  return ms > 0 ? ms : HUNG_MS;
}

/* Without an egress process nobody waits for a dial any more. */
static void egress_went(struct launcher *launcher) { dials_cancel(launcher, NULL, ECANCELED); }

static const struct ports ports = {
    .request_came = verb_run, .egress_came = relays_hurry, .dial_came = dial_serve, .egress_went = egress_went};

static int timeout_until(const int64_t *deadlines, size_t count) {
  int64_t next = 0;
  for (size_t i = 0; i < count; i++) {
    if (deadlines[i] != 0 && (next == 0 || deadlines[i] < next)) next = deadlines[i];
  }
  if (next == 0) return -1;
  int64_t left = next - now_ms();
  return left < 0 ? 0 : left > 60000 ? 60000 : (int)left;
}

enum { SWEEP_MS = 4 };

static void loop(struct launcher *launcher) {
  int64_t swept_ms = 0;
  while (!launcher->is_ending || launcher->sandboxes != NULL || launcher->worker_count > 0) {
    /* While there is something to do, all sandboxes are looked through for deadlines now and then, not for each event. */
    struct epoll_event event;
    int count = now_ms() < swept_ms + SWEEP_MS ? epoll_wait(launcher->epoll_fd, &event, 1, 0) : 0;
    if (count == 0) {
      swept_ms = now_ms();
      int64_t deadlines[] = {sandboxes_expire(launcher), connections_expire(launcher), watchdog_run(launcher),
                             room_run(launcher), relays_expire(launcher), dials_expire(launcher), sandbox_spares_run(launcher), helper_seat_run(launcher)};
      /* One at a time: handling an event may free what another one of the same batch points to. */
      count = epoll_wait(launcher->epoll_fd, &event, 1, timeout_until(deadlines, sizeof deadlines / sizeof deadlines[0]));
    }
    if (count != 1) continue;
    struct source *source = event.data.ptr;
    source->ready(launcher, source);
  }
}

static void say_goodbye(struct launcher *launcher) {
  (void)unlinkat(launcher->run_fd, "launch.sock", 0);
  egress_detach(launcher);
  group_remove(launcher);
  /* root's group stands where only root may remove it: its helper does, behind us. */
  if (launcher->helper_fd < 0) cgroup_dissolve(&launcher->cgroups);
  while (launcher->connections != NULL) {
    struct connection *connection = launcher->connections;
    if (connection->request.type == FRAME_SHUTDOWN) connection_ok(launcher, connection);
    else connection_close(launcher, connection);
  }
}

int resident_open_programs(struct resident_options *options, const char *init, struct fault *fault) {
  char vmm[PATH_MAX];
  const char *slash = strrchr(init, '/');
  int length = snprintf(vmm, sizeof vmm, "%.*ssquash-vmm", slash == NULL ? 0 : (int)(slash - init) + 1, init);
  options->init_fd = open(init, O_RDONLY | O_CLOEXEC);
  if (options->init_fd < 0) return fault_set(fault, "launch_failed", "can't open \"%s\"", init);
  options->vmm_fd = length > 0 && length < PATH_MAX ? open(vmm, O_RDONLY | O_CLOEXEC) : -1;
  return options->vmm_fd >= 0 ? 0 : fault_set(fault, "launch_failed", "can't open \"%s\"", vmm);
}

void resident_close_programs(const struct resident_options *options) {
  close(options->init_fd);
  close(options->vmm_fd);
}

int resident_main(const struct resident_options *options) {
  static struct launcher launcher;
  struct resident_ready ready = {0};
  setsid();
  title_set("squash-launch resident %s", options->data);
  if (chdir("/") != 0) return 1;
  launcher.ports = &ports;
  launcher.data = options->data;
  launcher.helper_fd = options->helper_fd;
  launcher.image_share = UINT64_MAX;
  launcher.hung_ms = hung_ms();
  launcher.is_single = options->is_single;
  launcher.single_reason = options->single_reason;
  launcher.cgroups = options->cgroups;
  /* An empty session keyring: the host user's keys must not be reachable from anything we start. The filter refuses the call. */
  (void)syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, NULL);
  int result = host_filter_load(HOST_FILTER_LAUNCHER, &ready.fault);
  if (result == 0) result = set_up(&launcher, options, &ready.fault);
  if (result == 0 && log_open(launcher.run_fd) != 0) {
    result = fault_set(&ready.fault, "launch_failed", "can't open launch.log");
  }
  ready.pid = result == 0 ? getpid() : 0;
  (void)write_whole(options->ready_fd, &ready, sizeof ready);
  close(options->ready_fd);
  resident_close_programs(options);
  if (result != 0) return 1;
  log_line("launcher %d listens; %s ids; control groups: %s", getpid(), launcher.is_single ? "single" : "range",
           launcher.cgroups.detail);
  if (launcher.single_reason[0] != '\0') log_line("single-id mode: %s", launcher.single_reason);
  loop(&launcher);
  log_line("launcher %d ends", getpid());
  say_goodbye(&launcher);
  return 0;
}
