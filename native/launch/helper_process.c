/*
 * The privileged helper's loop: see helper_process.h. What it does with loop devices is in helper_image.c.
 *
 * The helper takes whoever has the other end for an attacker: it opens what is named itself, below the data directory as
 * the host sees it; directories must belong to the daemon's id, images to root (so only this helper writes them),
 * processes run under the daemon's ids, numbers stay in their ranges. The rules are a table in docs/internals/launch.md.
 */
#include "launch/helper_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/become.h"
#include "launch/cgroup.h"
#include "common/clock.h"
#include "common/file.h"
#include "launch/helper.h"
#include "launch/helper_end.h"
#include "launch/helper_verbs.h"
#include "launch/ids.h"
#include "launch/launcher_record.h"
#include "launch/message.h"
#include "launch/oom.h"
#include "launch/title.h"

/* A descriptor and some hundred bytes each; more sandboxes at once than this are rare. */
enum { MAPS_KEPT = 256 };

static int tell_abilities(int data_fd, struct fault *fault) {
  struct helper_abilities abilities = {0};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fault_set(fault, "launch_failed", "can't make a pipe");
  cleanup_fd reader = ends[0];
  cleanup_fd writer = ends[1];
  helper_image_ability(&abilities);
  helper_project_ability(data_fd, &abilities);
  if (write_whole(writer, &abilities, sizeof abilities) != 0) return fault_set(fault, "launch_failed", "can't write");
  return take_fd(&reader);
}

/*
 * The directory that a path lies in: opened below the data directory as the host sees it, so that nothing the daemon
 * mounted or linked leads elsewhere; and the daemon's, so that it gains nothing there that it could not do itself.
 */
static int open_directory(int data_fd, const struct helper_request *request, const char **name, struct fault *fault) {
  struct stat status;
  bool is_image = request->verb != HELPER_SET_PROJECT;
  cleanup_fd directory = is_image ? open_parent(data_fd, request->path, name)
                                  : open_beneath(data_fd, request->path, O_RDONLY | O_DIRECTORY);
  if (directory < 0 || fstat(directory, &status) != 0) {
    return fault_set(fault, "launch_failed", "the helper can't open the directory of \"%s\"", request->path);
  }
  errno = 0;
  if (status.st_uid == ROOT_RANGE_FIRST || status.st_uid == ROOT_RANGE_FIRST + 1) return take_fd(&directory);
  return fault_set(fault, "invalid_request", "the directory of \"%s\" belongs to uid %u", request->path, status.st_uid);
}

/* The daemon's id or the sandboxes' root. */
static bool is_owner(const struct helper_request *request) {
  return request->owner == ROOT_RANGE_FIRST || request->owner == ROOT_RANGE_FIRST + 1;
}

static bool is_checked(const struct helper_request *request) {
  size_t length = strnlen(request->path, sizeof request->path);
  if (length == sizeof request->path || !path_is_relative(request->path)) return false;
  if (request->verb == HELPER_SET_PROJECT) return true;
  const char *slash = strrchr(request->path, '/');
  const char *name = slash == NULL ? request->path : slash + 1;
  return length > 4 && strcmp(request->path + length - 4, ".img") == 0 && name[0] != '.' &&
         (request->verb != HELPER_ATTACH_IMAGE || is_owner(request));
}

/* The verbs about files. Returns a descriptor to hand back, -1 where the verb has none or failed. */
static int serve_path(int data_fd, const struct helper_request *request, struct helper_answer *answer) {
  const char *name = NULL;
  if (!is_checked(request)) return fault_set(&answer->fault, "invalid_request", "the helper was given a malformed path");
  cleanup_fd directory = open_directory(data_fd, request, &name, &answer->fault);
  if (directory < 0) return -1;
  if (request->verb == HELPER_ATTACH_IMAGE) {
    char device[32];
    int mount = helper_image_attach(directory, name, request, device, &answer->fault);
    answer->is_fine = mount >= 0;
    return mount;
  }
  answer->is_fine = (request->verb == HELPER_CREATE_IMAGE
                         ? helper_image_create(directory, name, request, &answer->fault)
                         : helper_project_set(directory, request, &answer->fault)) == 0;
  return -1;
}

/* The image as it is and as the range is to see it. */
static int map_image(int data_fd, struct helper_request request, int namespace, struct helper_results *results,
                     struct fault *fault) {
  const char *name = NULL;
  char device[32];
  if (!is_checked(&request)) return fault_set(fault, "invalid_request", "the helper was given a malformed path");
  cleanup_fd directory = open_directory(data_fd, &request, &name, fault);
  if (directory < 0) return -1;
  request.owner = ROOT_RANGE_FIRST + 1;
  int *mounts = results->all;
  mounts[0] = helper_image_attach(directory, name, &request, device, fault);
  results->count = mounts[0] < 0 ? 0 : 1;
  if (mounts[0] < 0) return -1;
  mounts[1] = helper_image_map(device, namespace, fault);
  results->count = mounts[1] < 0 ? 1 : 2;
  return mounts[1] < 0 ? -1 : 0;
}

/* On the disk they are the sandboxes' common ids, from inside id 1 of the daemon's on. A namespace takes longer to make than
   all else here, so those of the first ranges, which are taken first, are kept. Returns a descriptor to close. */
static int namespace_of(uid_t first) {
  static int kept[MAPS_KEPT]; /* 0: none, for that is /dev/null */
  unsigned range = (first - OWN_RANGES_FIRST) / SANDBOX_IDS;
  if (range < MAPS_KEPT && kept[range] > 0) return fcntl(kept[range], F_DUPFD_CLOEXEC, 0);
  char map[64];
  snprintf(map, sizeof map, "%u %u %u\n", ROOT_RANGE_FIRST + 1, first, SANDBOX_IDS);
  int fd = ids_namespace(map);
  if (fd >= 0 && range < MAPS_KEPT) kept[range] = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* mkfs.ext4 needs none. */
  return fd;
}

static int map_trees(int data_fd, const struct helper_request *request, const int *trees, struct helper_results *results,
                     struct fault *fault) {
  errno = 0;
  if (!ids_begin_own_range(request->owner)) return fault_set(fault, "invalid_request", "the helper was given no sandbox's range");
  cleanup_fd namespace = namespace_of(request->owner);
  if (namespace < 0) return fault_set(fault, "launch_failed", "can't make a map of ids");
  if (request->path[0] != '\0' && map_image(data_fd, *request, namespace, results, fault) != 0) return -1;
  return helper_trees_map(trees, HELPER_TREES_MAX, namespace, fault);
}

/* `process` is a pidfd or -1. */
static int serve(const struct helper *helper, const struct helper_request *request, int process,
                 struct helper_answer *answer) {
  int result = -1;
  errno = 0;
  switch (request->verb) {
    case HELPER_CREATE_IMAGE:
    case HELPER_ATTACH_IMAGE:
    case HELPER_SET_PROJECT: return serve_path(helper->data_fd, request, answer);
    case HELPER_JOIN_GROUP:
      answer->is_fine = helper_member_join(helper->groups, process, &answer->fault) == 0;
      return -1;
    case HELPER_MAKE_DEVICES:
      if (is_owner(request) || ids_begin_own_range(request->owner)) result = helper_devices_make(request, &answer->fault);
      break;
    case HELPER_OPEN_FUSE: result = helper_member_fuse(process, &answer->fault); break;
    case HELPER_ABILITIES: result = tell_abilities(helper->data_fd, &answer->fault); break;
    case HELPER_LOOK: answer->is_fine = true; return -1;
    case HELPER_GRANT_IMAGE: /* Has been carried out: it has no answer. */
    case HELPER_MAP_TREES: break; /* Has several. */
  }
  if (result < 0 && answer->fault.code == NULL) fault_set(&answer->fault, "invalid_request", "the helper has no such verb");
  answer->is_fine = result >= 0;
  return result;
}

static bool is_kept(int fd, const struct helper *helper) {
  for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
    if (helper->groups->base[i] == fd) return true;
  }
  return fd == helper->socket || fd == helper->lock || fd == helper->data_fd || fd == helper->groups->origin;
}

static void close_others(const struct helper *helper) {
  /* `enter` has opened a handful by now. */
  for (int fd = 3; fd < 64; fd++) {
    if (!is_kept(fd, helper)) close(fd);
  }
}

/* The launcher and all its children are gone: an empty message reads the same, but no more than that ends the helper. */
static bool has_ended(int socket) {
  struct pollfd state = {.fd = socket};
  return poll(&state, 1, 0) != 0;
}

/* Answers one request, at the first of the descriptors. */
static void serve_message(const struct helper *helper, const struct helper_request *request, const int *descriptors) {
  struct helper_answer answer = {0};
  struct helper_results results = {.count = 0};
  if (request->verb == HELPER_MAP_TREES) {
    answer.is_fine = map_trees(helper->data_fd, request, descriptors + 1, &results, &answer.fault) == 0;
  } else {
    results.all[0] = serve(helper, request, descriptors[1], &answer);
    results.count = results.all[0] < 0 ? 0 : 1;
  }
  if (answer.fault.code != NULL) snprintf(answer.code, sizeof answer.code, "%s", answer.fault.code);
  answer.fault.code = NULL;
  /* It does not wait for whoever asked and does not listen. */
  (void)message_offer(descriptors[0], &answer, sizeof answer, results.all, answer.is_fine ? results.count : 0);
  for (unsigned i = 0; i < results.count; i++) close(results.all[i]);
}

static void serve_requests(const struct helper *helper) {
  for (;;) {
    struct helper_request request;
    int descriptors[HELPER_DESCRIPTORS_MAX];
    ssize_t got = message_receive_some(helper->socket, &request, sizeof request, descriptors, HELPER_DESCRIPTORS_MAX);
    if (got <= 0 && has_ended(helper->socket)) return;
    bool is_whole = got == (ssize_t)sizeof request && descriptors[0] >= 0;
    if (is_whole && request.verb == HELPER_GRANT_IMAGE) {
      (void)helper_image_grant(descriptors[0], request.bytes_max, &(struct fault){0});
    } else if (is_whole) {
      serve_message(helper, &request, descriptors);
    }
    for (unsigned i = 0; i < HELPER_DESCRIPTORS_MAX; i++) close_fd(&descriptors[i]);
  }
}

/*
 * A child serves, this process only waits: nobody could start another helper as root later on, so what kills the child
 * (somebody's `kill -9`, want of memory) costs the request it was at, and the next child takes the next one. A child
 * whose parent was killed serves on and does the parent's last act.
 */
static void serve_by_children(const struct helper *helper) {
  pid_t own = getpid();
  for (;;) {
    pid_t child = fork();
    if (child <= 0) serve_requests(helper); /* Itself, where there is no room for another process. */
    if (child == 0 && getppid() == own) _exit(0);
    if (child <= 0) return;
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (WIFEXITED(status)) return;
  }
}

static _Noreturn void helper_main(const struct helper *helper) {
  const struct cgroup_setup *groups = helper->groups;
  /* A child of ours joins user namespaces; it stays root's, and nobody in there may trace it. */
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  setsid();
  /* It goes with its launcher and not before: whoever ends both by signal (a service manager, `kill`) would else leave
     the groups standing. */
  signal(SIGTERM, SIG_IGN);
  signal(SIGINT, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  title_set("squash-launch helper %s", groups->name);
  if (chdir("/") != 0) _exit(1);
  cleanup_fd null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; null >= 0 && fd < 3; fd++) dup2(null, fd);
  close_others(helper);
  raise_open_files(); /* Maps are kept as descriptors: few of them would be an end of all starts. */
  cgroup_place_launcher(groups, 0);
  (void)oom_spare(0, OOM_HELPER);
  struct fault fault;
  if (helper_filter_load(&fault) != 0) _exit(1);
  serve_by_children(helper);
  cgroup_dissolve(groups);
  launcher_record_forget(groups->name); /* The lock goes behind it, so a next launcher writes its own later. */
  _exit(0);
}

/* It ends within milliseconds once its launcher and the launcher's children are gone; a loaded machine takes longer. */
enum { HELPER_END_MS = 15000, LOCK_POLL_MS = 5 };

int helper_lock_now(int data_fd) {
  cleanup_fd lock = openat(data_fd, "helper.lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  return lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0 ? take_fd(&lock) : -1;
}

int helper_lock(int data_fd, const char *group, struct fault *fault) {
  for (int waited = 0; waited < HELPER_END_MS; waited += LOCK_POLL_MS) {
    int lock = helper_lock_now(data_fd);
    if (lock >= 0) return lock;
    if (errno != EWOULDBLOCK) return fault_set(fault, "launch_failed", "can't lock helper.lock");
    sleep_ms(LOCK_POLL_MS);
  }
  helper_end(group, data_fd); /* Its launcher is gone, so all that it could still do is for nobody. */
  int lock = helper_lock_now(data_fd);
  if (lock >= 0) return lock;
  return fault_set(fault, "launch_failed", "the privileged helper of an earlier launcher does not end");
}

int helper_pair(int ends[2], struct fault *fault) {
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0) return 0;
  return fault_set(fault, "launch_failed", "can't make a socket pair");
}

int helper_start(const struct helper *helper, struct fault *fault) {
  pid_t between = fork();
  if (between == 0) {
    if (fork() == 0) helper_main(helper);
    _exit(0);
  }
  while (between > 0 && waitpid(between, NULL, 0) < 0 && errno == EINTR) continue;
  return between > 0 ? 0 : fault_set(fault, "launch_failed", "can't fork");
}
