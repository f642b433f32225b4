/*
 * The sandbox's root: see new_root.h.
 *
 * The working directory, a tmpfs over /tmp of this namespace, holds `l/0` … (lowers; what overlays of places lie on), `u` (upper), `root` (the overlay),
 * `dev`, `proc`, `etc`, and `covers`: what lies over things of /proc. Names are short because the kernel takes one page
 * of mount options. It is the root while a spare waits, so that what the host unmounts is free, and nothing of the host is
 * there when the upper comes. It goes when the new root is entered; only what is attached below `root` stays.
 */
#include "launch/new_root.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/mount_points.h"
#include "launch/devices.h"
#include "launch/message.h"
#include "launch/mounts.h"
#include "launch/nesting.h"
#include "launch/overlay.h"
#include "launch/places.h"
#include "common/syscalls.h"
#include "launch/upper.h"
#include "launch/vmm_devices.h"

/* A directory that exists on every host and that nothing we need lies below. */
#define WORK "/tmp"

static const char *const directories[] = {"l", "u", "root", "dev", "proc", "etc", "covers", "covers/empty", "covers/closed"};

int new_root_begin(struct fault *fault) {
  /* Inodes hold the names of 500 lowers, and those that overlays of places do not show, with their directories; stored are the two files of /etc. */
  bool is_made = mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                 mount("squash", WORK, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m,nr_inodes=65536") == 0 &&
                 chdir(WORK) == 0;
  for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++) {
    is_made = is_made && mkdir(directories[i], 0755) == 0;
  }
  is_made = is_made && mknod("covers/nothing", S_IFREG | 0444, 0) == 0 && mknod("covers/unread", S_IFREG, 0) == 0 &&
            chmod("covers/unread", 0) == 0 && chmod("covers/closed", 0) == 0;
  if (is_made) return 0;
  return fault_set(fault, "launch_failed", "can't make the working directory of the start");
}

static int mount_overlay(const struct launcher *launcher, const struct starter_plan *plan, const struct request *request,
                         struct fault *fault) {
  cleanup_fd upper = open("u", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (upper < 0 || !upper_is_whole(upper)) {
    return fault_set(fault, "launch_failed", "\"data\" and \"work\" of upper \"%s\" are no directories", request->upper);
  }
  if (request->upper_kind != UPPER_DIRECTORY) upper_spare_release(upper, request->upper_kind);
  /* Once more for each of two files that a layer has as a directory. */
  for (int tries_left = 2;; tries_left--) {
    if (request->is_box ? places_lay_ground(fault) != 0 : overlay_mount(launcher, plan, request, fault) != 0) return -1;
    cleanup_fd root = open("root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) return fault_set(fault, "launch_failed", "can't open the sandbox's root");
    const char *unmade = mount_points_prepare(root);
    if (unmade == NULL) break;
    bool is_layers = errno == EXDEV && tries_left > 0 && !request->is_box && !launcher->overlays_by_fuse;
    close_fd(&root);
    if (!is_layers || umount2("root", MNT_DETACH) != 0 || mount_point_cover(upper, unmade) != 0) {
      return fault_disk(fault, "launch_failed", "can't make %s", unmade);
    }
  }
  return 0;
}

/* Behind all that a start writes to the upper. */
static void take_spare(const struct request *request) {
  cleanup_fd upper = request->upper_kind == UPPER_DIRECTORY ? -1 : open("u", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (upper >= 0) upper_spare_take(upper);
}

/* The launcher measures and packs an image through its mount. */
static int tell_mount(const struct starter_plan *plan, struct supply *supply, struct fault *fault) {
  struct starter_message message = {.word = STARTER_UPPER_MOUNT};
  if (supply->image < 0) return 0;
  bool is_told = message_send(plan->control_fd, &message, sizeof message, &supply->image, 1) == 0;
  close_fd(&supply->image);
  if (is_told) return 0;
  return fault_set(fault, "launch_failed", "the launcher does not listen to its child");
}

int new_root_assemble(const struct launcher *launcher, const struct starter_plan *plan, struct supply *supply,
                      struct fault *fault) {
  const struct request *request = &supply->request;
  if (tell_mount(plan, supply, fault) != 0) return -1;
  for (size_t i = 0; i < request->lower_count; i++) {
    char to[32];
    snprintf(to, sizeof to, "l/%zu", i);
    if (mkdir(to, 0755) != 0 || sys_move_mount(supply->lowers[i], AT_FDCWD, to) != 0) {
      return fault_set(fault, "launch_failed", "can't attach layer %zu", i);
    }
    close_fd(&supply->lowers[i]);
  }
  if (sys_move_mount(supply->upper, AT_FDCWD, "u") != 0) {
    return fault_set(fault, "launch_failed", "can't attach upper \"%s\"", request->upper);
  }
  close_fd(&supply->upper);
  return mount_overlay(launcher, plan, request, fault);
}

/* What is bound from a read-only mount is read-only where it is shown. */
static int make_readonly(const char *name, struct fault *fault) {
  if (mount(name, name, NULL, MS_BIND, NULL) == 0 &&
      mount(NULL, name, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) == 0) {
    return 0;
  }
  return fault_set(fault, "launch_failed", "can't make \"%s\" read-only", name);
}

static int make_etc(const struct request *request, struct fault *fault) {
  const struct {
    const char *name;
    const char *text;
  } files[] = {{"etc/hosts", request->hosts}, {"etc/resolv.conf", request->resolv_conf}};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    /* Readable for all: who is not root inside (apt's own user) could resolve nothing otherwise. */
    cleanup_fd fd = open(files[i].name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 || write_whole(fd, files[i].text, strlen(files[i].text)) != 0) {
      return fault_set(fault, "launch_failed", "can't write /%s", files[i].name);
    }
  }
  return make_readonly("etc", fault);
}

/*
 * What container engines hide below /proc, and what else there tells of the machine or takes from it: triggers of
 * /proc/pressure make the kernel work and keep their holder from ending.
 */
static const struct mask {
  const char *name;
  bool is_directory;
} masks[] = {{"acpi", true},        {"asound", true},         {"fs", true},           {"pressure", true},
             {"scsi", true},        {"interrupts", false},    {"softirqs", false},    {"kcore", false},
             {"key-users", false},  {"keys", false},          {"latency_stats", false}, {"sched_debug", false},
             {"timer_list", false}, {"timer_stats", false}};

/* Of the machine, and read-only where this id could write there: it is nobody's whom the kernel lets, in any mode. */
static const char *const settings[] = {"sys", "sysrq-trigger", "irq", "bus", "dynamic_debug"};

/* Memory of the machine and of its kernel, which only root's own id may read. */
static const char *const memories[] = {"kpagecount", "kpageflags", "kpagecgroup", "slabinfo", "vmallocinfo"};

/*
 * The host's root owns it, and has an id in here. What lies in /proc/sys goes by that id alone: neither the directory's mode nor a
 * capability says that the files in it can be written.
 */
static bool is_somebodys(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && (status.st_uid != 65534 || access(path, W_OK) == 0);
}

static int make_proc(const struct starter_plan *plan, struct fault *fault) {
  char path[32];
  if (mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0) {
    return fault_set(fault, "launch_failed", "can't mount /proc");
  }
  if (plan->allows_nesting && nesting_limit_namespaces(fault) != 0) return -1;
  for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
    snprintf(path, sizeof path, "proc/%s", masks[i].name);
    if (mount(masks[i].is_directory ? "covers/empty" : "covers/nothing", path, NULL, MS_BIND, NULL) != 0 && errno != ENOENT) {
      return fault_set(fault, "launch_failed", "can't cover /proc/%s", masks[i].name);
    }
  }
  for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++) {
    snprintf(path, sizeof path, "proc/%s", memories[i]);
    if (access(path, R_OK) == 0 && mount("covers/nothing", path, NULL, MS_BIND, NULL) != 0) {
      return fault_set(fault, "launch_failed", "can't cover /proc/%s", memories[i]);
    }
  }
  for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
    snprintf(path, sizeof path, "proc/%s", settings[i]);
    if (!is_somebodys(path)) continue;
    if (mount(path, path, NULL, MS_BIND | MS_REC, NULL) != 0 ||
        mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0) {
      return fault_set(fault, "launch_failed", "can't make /proc/%s read-only", settings[i]);
    }
  }
  return 0;
}

/* Moves the mount at `from` onto one name in an open directory. A link there is not followed. */
static int place(const char *from, int directory, const char *name, struct fault *fault) {
  cleanup_fd mount = open(from, O_PATH | O_CLOEXEC);
  if (mount >= 0 && sys_move_mount(mount, directory, name) == 0) return 0;
  return fault_set(fault, "launch_failed", "can't attach /%s", name);
}

static int show(const char *from, int directory, const char *name, struct fault *fault) {
  cleanup_fd tree = sys_open_tree(AT_FDCWD, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  if (tree >= 0 && sys_move_mount(tree, directory, name) == 0) return 0;
  return fault_set(fault, "launch_failed", "can't attach /etc/%s", name);
}

static int become_root_of_tree(int root, struct fault *fault) {
  /* The old root ends up on top of the new one, and there `.` finds it. Its mounts go with it. */
  if (fchdir(root) == 0 && syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0 && chdir("/") == 0) return 0;
  return fault_set(fault, "launch_failed", "can't change the root");
}

int new_root_prepare(const struct launcher *launcher, const struct starter_plan *plan, struct fault *fault) {
  if (plan->devices_fd >= 0 && sys_move_mount(plan->devices_fd, AT_FDCWD, "dev") != 0) {
    return fault_set(fault, "launch_failed", "can't attach the sandbox's device nodes");
  }
  if (make_readonly("covers", fault) != 0 || make_proc(plan, fault) != 0 || devices_furnish(launcher, "dev", fault) != 0) return -1;
  /* fuse-overlayfs needs the host's tree until the overlay stands, and then the last change of the root is enough. */
  if (launcher->overlays_by_fuse) return 0;
  cleanup_fd here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (here >= 0) return become_root_of_tree(here, fault);
  return fault_set(fault, "launch_failed", "can't open the working directory of the start");
}

/* What was attached before lies on the way to what comes now, so they come in the request's order. */
static int place_mounts(int root, struct supply *supply, struct fault *fault) {
  for (size_t i = 0; i < supply->request.mount_count; i++) {
    const struct mount_wish *wish = &supply->request.mounts[i];
    bool is_place = wish->place != PLACE_NONE;
    bool is_file = is_place && wish->own == NULL; /* A VMM's disk. */
    if (is_place && supply->request.is_box) continue;
    if (wish->own != NULL) {
      if (places_put_in_layers(root, supply, i, fault) != 0) return -1;
      continue;
    }
    cleanup_fd target = is_file ? mounts_open_file(root, wish->target, fault) : mounts_open_target(root, wish->target, fault);
    if (target < 0 || mounts_place(supply->mounts[i], target, wish, fault) != 0) return -1;
    close_fd(&supply->mounts[i]);
  }
  return 0;
}

int new_root_enter(struct supply *supply, struct fault *fault) {
  const struct request *request = &supply->request;
  if (make_etc(request, fault) != 0 || devices_share_memory("dev/shm", request->shm_bytes_max, fault) != 0) return -1;
  if (request->vmm_devices != 0 && vmm_devices_put("dev", supply->vmm_devices, fault) != 0) return -1;
  cleanup_fd root = open("root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) return fault_set(fault, "launch_failed", "can't open the sandbox's root");
  if (request->is_box && places_put(root, supply, fault) != 0) return -1;
  cleanup_fd etc = openat(root, "etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (etc < 0) return fault_set(fault, "launch_failed", "can't open /etc");
  if (request->is_box && places_put_devices("dev", supply, fault) != 0) return -1;
  if (!request->is_box) places_drop_left(request);
  /* While /proc is still where this process finds its descriptors by. */
  if (!request->is_box && (place_mounts(root, supply, fault) != 0 || places_close(supply, fault) != 0)) return -1;
  if (place("proc", root, "proc", fault) != 0 || place("dev", root, "dev", fault) != 0 ||
      show("etc/hosts", etc, "hosts", fault) != 0 || show("etc/resolv.conf", etc, "resolv.conf", fault) != 0) {
    return -1;
  }
  if (request->is_box && (places_close(supply, fault) != 0 || place_mounts(root, supply, fault) != 0)) return -1;
  take_spare(request);
  return become_root_of_tree(root, fault);
}
