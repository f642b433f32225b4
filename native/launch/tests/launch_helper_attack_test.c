/*
 * The privileged helper's verbs, asked by an attacker who has its socket and everything in the data directory: random
 * verbs, paths, numbers, lengths and descriptors. Whatever it answers, nothing of root's outside may have changed, no process
 * may have ended, and each descriptor that comes back is of something that was the attacker's already.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/device_tree.h"
#include "common/descriptor.h"
#include "launch/cgroup_setup.h"
#include "common/file.h"
#include "launch/helper.h"
#include "launch/helper_process.h"
#include "launch/helper_verbs.h"
#include "launch/ids.h"
#include "launch/message.h"
#include "common/syscalls.h"
#include "tests/check.h"

enum { ROUNDS = 3000, IMAGE_BYTES = 1 << 22 };

static const char *const paths[] = {
    "1.img", "u/1.img", "u/2.img", "../victim/new.img", "u/../../victim/new.img", "link/new.img", "link/root.img", "out/new.img", "link.img",
    "/etc/passwd.img", "u/.img", ".img", "u/fifo.img", "u/own.img", "u/second.img", "u/directory.img", "root/1.img",
    "u", "link", "..", ".", "root", "", "u//1.img", "u/1.img/", "u/1.img.tmp", "missing/1.img",
};
enum { PATHS = sizeof paths / sizeof paths[0] };
static const uint64_t numbers[] = {0, 1, 15, 16, 4096, IMAGE_BYTES, 1 << 20, UINT64_MAX, UINT64_MAX - 4095, UINT64_C(1) << 63};

struct scene {
  char parent[64];
  int data_fd;
  int victim_fd;
  int helper;
  int processes[3]; /* of root; of the daemon's id; of a sandbox's, in a user namespace of its own */
  pid_t pids[3];
};

/* How often each verb was carried out. */
static unsigned carried_out[HELPER_MAP_TREES + 1];

static unsigned pick(unsigned count) { return (unsigned)rand() % count; }

static void put_file(int directory, const char *name, uid_t owner) {
  int fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  CHECK(fd >= 0 && write(fd, "kept", 4) == 4 && fchown(fd, owner, owner) == 0);
  close(fd);
}

static pid_t start_process(uid_t id, bool is_sandbox) {
  int ready[2];
  char byte;
  CHECK(pipe2(ready, O_CLOEXEC) == 0);
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (id != 0 && (setresgid(id, id, id) != 0 || setresuid(id, id, id) != 0)) _exit(1);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (is_sandbox && unshare(CLONE_NEWUSER) != 0) _exit(1);
    (void)!write(ready[1], "r", 1);
    for (;;) pause();
  }
  close(ready[1]);
  CHECK(read(ready[0], &byte, 1) == 1);
  close(ready[0]);
  return pid;
}

static void make_tree(struct scene *scene) {
  const uid_t daemon = ROOT_RANGE_FIRST;
  snprintf(scene->parent, sizeof scene->parent, "/tmp/squash-helper-%d-XXXXXX", (int)getpid());
  CHECK(mkdtemp(scene->parent) != NULL && chmod(scene->parent, 0711) == 0);
  int parent = open(scene->parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  CHECK(mkdirat(parent, "data", 0700) == 0 && mkdirat(parent, "victim", 0755) == 0);
  scene->data_fd = openat(parent, "data", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  scene->victim_fd = openat(parent, "victim", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  /* Another directory of the daemon's, which is not below the data directory. */
  CHECK(mkdirat(parent, "out", 0700) == 0 && fchownat(parent, "out", daemon, daemon, 0) == 0);
  CHECK(symlinkat("../out", scene->data_fd, "out") == 0);
  put_file(scene->victim_fd, "root.img", 0);
  put_file(scene->victim_fd, "second.img", 0);
  CHECK(fchown(scene->data_fd, daemon, daemon) == 0 && mkdirat(scene->data_fd, "u", 0700) == 0);
  int upper = openat(scene->data_fd, "u", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  CHECK(symlinkat("../victim", scene->data_fd, "link") == 0 && symlinkat("../victim/root.img", scene->data_fd, "link.img") == 0);
  CHECK(linkat(scene->victim_fd, "second.img", upper, "second.img", 0) == 0);
  CHECK(mkdirat(scene->data_fd, "root", 0700) == 0 && mkdirat(upper, "directory.img", 0700) == 0);
  CHECK(mkfifoat(upper, "fifo.img", 0600) == 0 && fchown(upper, daemon, daemon) == 0);
  put_file(upper, "own.img", daemon);
  CHECK(mkdirat(scene->data_fd, "layer", 0755) == 0 && fchownat(scene->data_fd, "layer", daemon + 1, daemon + 1, 0) == 0);
  close(upper);
  close(parent);
}

/* What root has beside the data directory is as it was. */
static void check_victims(const struct scene *scene, const char *what) {
  static const char *const names[] = {"root.img", "second.img"};
  struct stat status;
  char text[16];
  for (size_t i = 0; i < 2; i++) {
    CHECK_NAMED(fstatat(scene->victim_fd, names[i], &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_uid == 0 &&
                    (status.st_mode & 07777) == 0600 && text_file_read(scene->victim_fd, names[i], text, sizeof text) == 4,
                what);
  }
  CHECK_NAMED(fstat(scene->victim_fd, &status) == 0 && status.st_uid == 0 && status.st_nlink == 2, what);
  CHECK_NAMED(faccessat(scene->data_fd, "../out/new.img", F_OK, 0) != 0, what);
  CHECK_NAMED(faccessat(scene->victim_fd, "new.img", F_OK, 0) != 0 && faccessat(scene->data_fd, "root/1.img", F_OK, 0) != 0, what);
  CHECK_NAMED(fstatat(scene->data_fd, "root", &status, 0) == 0 && status.st_uid == 0 && status.st_nlink == 2, what);
  for (size_t i = 0; i < 3; i++) CHECK_NAMED(waitpid(scene->pids[i], NULL, WNOHANG) == 0, what);
}

static void check_answer(const struct scene *scene, const struct helper_request *request, int process, int result) {
  struct statfs status;
  const char *name = request->path;
  if ((unsigned)request->verb <= HELPER_GRANT_IMAGE) carried_out[request->verb]++;
  bool is_ours = strcmp(name, "1.img") == 0 || strcmp(name, "u/1.img") == 0 || strcmp(name, "u/2.img") == 0;
  switch ((int)request->verb) {
    case HELPER_CREATE_IMAGE: /* A name that is there is kept, whatever it is: it can't be used. */
      CHECK_NAMED(is_ours || strcmp(name, "link.img") == 0 || strncmp(name, "u/", 2) == 0, name);
      break;
    case HELPER_ATTACH_IMAGE:
      CHECK_NAMED(is_ours && fstatfs(result, &status) == 0 && status.f_type == EXT4_SUPER_MAGIC, name);
      CHECK(status.f_blocks * (uint64_t)status.f_bsize <= 2 * IMAGE_BYTES);
      break;
    case HELPER_SET_PROJECT: CHECK_NAMED(strcmp(name, "u") == 0, name); break;
    case HELPER_JOIN_GROUP: CHECK(process == scene->processes[1]); break;
    case HELPER_OPEN_FUSE: CHECK(process == scene->processes[2]); break;
    case HELPER_ABILITIES:
    case HELPER_LOOK: break;
    case HELPER_MAKE_DEVICES: /* A file system of its own, with nothing of the caller's in it. */
      CHECK(request->vmm_device <= VMM_DEVICES);
      CHECK(request->owner == ROOT_RANGE_FIRST || request->owner == ROOT_RANGE_FIRST + 1 || ids_begin_own_range(request->owner));
      CHECK(fstatfs(result, &status) == 0 && status.f_type == TMPFS_MAGIC);
      break;
    default: CHECK(!"a verb that there is not was carried out");
  }
}

enum { TREES = 4, TREE_KINDS = 6 };

/* Detached ones of a layer, of the data directory and of root's; root's as the host has it; what is no mount. */
static int some_tree(const struct scene *scene, unsigned kind) {
  const int directories[] = {scene->data_fd, scene->data_fd, scene->victim_fd};
  const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH;
  if (kind < 3) return sys_open_tree(directories[kind], kind == 0 ? "layer" : "", flags);
  if (kind == 3) return open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  return dup(kind == 4 ? scene->victim_fd : scene->helper);
}

/* Each tree is a detached one, and in it nobody has an id of root's or the daemon's. */
static void check_trees(const struct helper_request *request, const int *trees, const unsigned *kinds, unsigned count) {
  struct stat status;
  carried_out[HELPER_MAP_TREES]++;
  CHECK_NAMED(ids_begin_own_range(request->owner), "a range that is a sandbox's own");
  if (request->path[0] != '\0') CHECK_NAMED(strcmp(request->path, "1.img") == 0 || strncmp(request->path, "u/", 2) == 0, request->path);
  for (unsigned i = 0; i < count; i++) {
    CHECK(kinds[i] < 3 && fstat(trees[i], &status) == 0);
    CHECK(status.st_uid == (kinds[i] == 0 ? request->owner : 65534));
  }
}

static int some_descriptor(const struct scene *scene, int reply) {
  const int all[] = {reply, scene->data_fd, scene->victim_fd, scene->helper, 0, scene->processes[0]};
  return all[pick(sizeof all / sizeof all[0])];
}

static void attack(const struct scene *scene) {
  struct helper_request message;
  struct helper_request *request = &message;
  memset(&message, (int)pick(256), sizeof message);
  request->verb = (enum helper_verb)(pick(12) == 0 ? rand() : (int)pick(11));
  if (pick(20) != 0) snprintf(request->path, sizeof request->path, "%s", paths[pick(PATHS)]);
  if (request->verb == HELPER_MAP_TREES && pick(2) == 0) request->path[0] = '\0';
  request->bytes_max = numbers[pick(sizeof numbers / sizeof numbers[0])];
  request->is_reserved = request->bytes_max <= IMAGE_BYTES && pick(2) == 0; /* Not the disk's last room. */
  request->inodes_max = pick(2) == 0 ? 64 : numbers[pick(sizeof numbers / sizeof numbers[0])];
  request->owner = pick(2) == 0 ? ROOT_RANGE_FIRST + pick(3) : (uid_t)rand();
  if (pick(2) == 0) request->owner = OWN_RANGES_FIRST + pick(OWN_RANGES + 1) * SANDBOX_IDS + (pick(4) == 0);
  request->vmm_device = pick(2) == 0 ? pick(VMM_DEVICES + 3) : (unsigned)rand();
  int pair[2];
  CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
  bool is_heard = pick(8) != 0;
  int process = pick(4) == 0 ? some_descriptor(scene, pair[1]) : scene->processes[pick(3)];
  int descriptors[1 + TREES] = {is_heard ? pair[1] : some_descriptor(scene, pair[1]), process};
  bool has_trees = request->verb == HELPER_MAP_TREES || pick(10) == 0;
  unsigned kinds[TREES];
  unsigned trees = has_trees ? pick(TREES + 1) : 0;
  for (unsigned i = 0; i < trees; i++) {
    kinds[i] = pick(pick(2) == 0 ? 1 : TREE_KINDS);
    descriptors[1 + i] = some_tree(scene, kinds[i]);
  }
  /* The helper's own socket as the place of the answer would make the answer its next request. */
  size_t length = pick(10) == 0 ? pick(sizeof *request) : sizeof *request;
  CHECK(message_send(scene->helper, &message, length, descriptors, has_trees ? 1 + trees : is_heard ? 2 : pick(3)) == 0 || length == 0);
  close(pair[1]);
  struct helper_answer answer;
  int results[MESSAGE_DESCRIPTORS_MAX];
  ssize_t got = message_receive_some(pair[0], &answer, sizeof answer, results, MESSAGE_DESCRIPTORS_MAX);
  bool is_answered = got == (ssize_t)sizeof answer && answer.is_fine && is_heard;
  if (is_answered && request->verb == HELPER_MAP_TREES) check_trees(request, descriptors + 1, kinds, trees);
  else if (is_answered) check_answer(scene, request, process, results[0]);
  for (unsigned i = 0; i < MESSAGE_DESCRIPTORS_MAX; i++) close_fd(&results[i]);
  for (unsigned i = 0; i < trees; i++) close_fd(&descriptors[1 + i]);
  close(pair[0]);
  char what[128];
  snprintf(what, sizeof what, "after verb %d of \"%.64s\"", (int)request->verb, request->path);
  check_victims(scene, what);
}

static void end(struct scene *scene) {
  char command[128];
  close(scene->helper);
  for (size_t i = 0; i < 3; i++) {
    kill(scene->pids[i], SIGKILL);
    waitpid(scene->pids[i], NULL, 0);
    close(scene->processes[i]);
  }
  /* The helper ends with its socket: then its lock is free. */
  struct fault fault = {0};
  int lock = helper_lock(scene->data_fd, "attack", &fault);
  CHECK_NAMED(lock >= 0, fault.text);
  close(lock);
  snprintf(command, sizeof command, "%s", scene->parent);
  pid_t remover = fork();
  if (remover == 0) {
    execl("/bin/rm", "rm", "-rf", command, (char *)NULL);
    _exit(127);
  }
  waitpid(remover, NULL, 0);
}

/* Whether chance made one that can be attached, the seed says: one more, on purpose. */
static void check_image(const struct scene *scene) {
  struct fault fault = {0};
  struct request request = {.upper = "u/sure", .bytes_max = IMAGE_BYTES, .inodes_max = 64};
  struct image_use use = {.upper = "u/sure", .sandbox_root = 1, .share = UINT64_MAX};
  CHECK_NAMED(helper_create_image(scene->helper, &request, &fault) == 0, fault.text);
  int mount = helper_attach_image(scene->helper, &use, &fault);
  CHECK_NAMED(mount >= 0, fault.text);
  /* What an earlier version's start left that was cut short: some spares are gone, and the others root's. */
  struct stat status;
  CHECK(unlinkat(mount, "spare.15", 0) == 0 && fchownat(mount, "spare.3", 0, 0, AT_SYMLINK_NOFOLLOW) == 0);
  close(mount);
  mount = helper_attach_image(scene->helper, &use, &fault);
  CHECK_NAMED(mount >= 0, fault.text);
  CHECK_NAMED(fstatat(mount, "spare.3", &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_uid == ROOT_RANGE_FIRST + 1, "a spare of root's");
  close(mount);
}

/* Each of them another map, more than the helper keeps and than it was given descriptors for. */
static void check_ranges(const struct scene *scene) {
  struct fault fault = {0};
  unsigned mapped = 0;
  const int none = -1;
  for (unsigned i = 0; i < 300; i++) {
    const struct tree_use use = {NULL, ROOT_RANGE_IDS + i * SANDBOX_IDS, &none, 0};
    mapped += helper_map_trees(scene->helper, &use, NULL, &fault) == 0;
  }
  CHECK_NAMED(mapped == 300, fault.text);
}

int main(void) {
  struct scene scene;
  struct cgroup_setup groups = {.version = 0, .origin = -1};
  struct fault fault = {0};
  if (geteuid() != 0) {
    puts("skipped: only root has a privileged helper");
    return 0;
  }
  const char *given = getenv("SEED");
  unsigned seed = given != NULL ? (unsigned)atoi(given) : (unsigned)getpid();
  printf("SEED=%u\n", seed);
  fflush(stdout);
  srand(seed);
  for (int i = 0; i < CGROUP_CONTROLLERS; i++) groups.base[i] = -1;
  make_tree(&scene);
  int lock = helper_lock(scene.data_fd, "attack", &fault);
  int ends[2];
  CHECK_NAMED(helper_pair(ends, &fault) == 0, fault.text);
  struct rlimit files;
  CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
  CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){128, files.rlim_max}) == 0);
  CHECK_NAMED(helper_start(&(struct helper){ends[1], lock, scene.data_fd, &groups}, &fault) == 0, fault.text);
  CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
  scene.helper = ends[0];
  close(ends[1]);
  close(lock);
  for (size_t i = 0; i < 3; i++) {
    scene.pids[i] = start_process(i == 0 ? 0 : ROOT_RANGE_FIRST + (uid_t)i - 1, i == 2);
    scene.processes[i] = sys_pidfd_open(scene.pids[i]);
  }
  for (int i = 0; i < ROUNDS; i++) attack(&scene);
  struct helper_abilities abilities;
  CHECK_NAMED(helper_abilities(scene.helper, &abilities, &fault) == 0, "the helper still answers");
  /* Its filter leaves it what it is there for. */
  CHECK(carried_out[HELPER_MAP_TREES] > 0 && carried_out[HELPER_CREATE_IMAGE] > 0 && carried_out[HELPER_MAKE_DEVICES] > 0 && carried_out[HELPER_JOIN_GROUP] > 0);
  check_ranges(&scene);
  if (abilities.has_images) check_image(&scene);
  if (access("/dev/fuse", F_OK) == 0) CHECK(carried_out[HELPER_OPEN_FUSE] > 0);
  end(&scene);
  return check_summary();
}
