/*
 * Sized upper images: an ext4 file, its loop device, its mount. Runs in the privileged helper.
 *
 * The file belongs to root and is written by the kernel only, so its content is as trustworthy as any local file
 * system, whatever the sandbox writes into the mount. It has a journal, as small as they come: ext4 without one takes
 * no inode again for minutes after its file was deleted, and looks at each of those one by one, so that ten thousand new
 * files after ten thousand deleted ones cost ten seconds of processor time instead of 0.15 (measured).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/major.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/file.h"
#include "launch/helper.h"
#include "launch/helper_verbs.h"
#include "launch/ids.h"
#include "common/syscalls.h"
#include "launch/upper.h"

enum {
  /* Upper sizes come from configuration and requests: a handful at a time. Each template holds the metadata only. */
  TEMPLATES_MAX = 8,
  INODE_BYTES = 256,
  /* Superblocks, group descriptors, bitmaps: measured at 1.6 % of the size, and at least this. */
  OVERHEAD_BYTES_MIN = 2 * 1024 * 1024,
  /* The least that mkfs makes; it comes on top of what files may take. */
  JOURNAL_BYTES = 4 * 1024 * 1024,
  /* mkfs gives no more than half of a file system to its journal. */
  JOURNALLED_BYTES_MIN = 4 * JOURNAL_BYTES,
  LOOP_TRIES = 64,
  LOOP_WAITS = 200,
  LOOP_WAIT_US = 5000,
  LOOPS_REMEMBERED = 4096,
  /* Zeros up to here are written rather than left out: each piece of a file is a request to the disk. */
  GAP_BYTES_MAX = 64 * 1024,
  RESERVED_BLOCKS_MAX = 4096, /* as ext4 has it: two percent, and no more than this */
};
/* As SQUASH_UPPER_LIMIT_MB: a template takes memory for its size, whoever asks for it. */
#define IMAGE_BYTES_MAX (UINT64_C(1) << 40)
#define IMAGE_INODES_MAX (UINT64_C(1) << 30)

/* What a loop device of ours says of its file: other ones of the host are none of our business. */
#define LOOP_MARK "squash-upper"

struct template_image {
  uint64_t bytes_max;
  uint64_t inodes_max;
  int fd;
};

static const char *mkfs_program(void) {
  static const char *const paths[] = {"/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"};
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
    if (access(paths[i], X_OK) == 0) return paths[i];
  }
  return NULL;
}

static bool has_journal(const struct helper_request *request) { return request->bytes_max >= JOURNALLED_BYTES_MIN; }

static int run_mkfs(int fd, const struct helper_request *request, struct fault *fault) {
  const char *program = mkfs_program();
  errno = ENOENT;
  if (program == NULL) return fault_set(fault, "launch_failed", "mkfs.ext4 is not installed");
  char count[32];
  snprintf(count, sizeof count, "%llu", (unsigned long long)request->inodes_max);
  pid_t helper = getpid();
  pid_t child = fork();
  if (child == 0) {
    /* It goes with a helper that is killed because it is too slow, and not on beside the next one. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != helper) _exit(127);
    /* One copy without close-on-exec: mkfs opens it by that name. */
    int own = dup(fd);
    const char *features = has_journal(request) ? "has_journal,^resize_inode,extents,flex_bg,sparse_super2"
                                                : "^has_journal,^resize_inode,extents,flex_bg,sparse_super2";
    /* Four pieces are written of a new image, one of them the backup of the superblock. A file of five needs another
       block to say where they are, and all of them are requests to the disk that a start waits for. */
    const char *layout = "packed_meta_blocks=1,num_backup_sb=1,lazy_itable_init=1,lazy_journal_init=1,nodiscard,"
                         "root_owner=0:0";
    execl(program, program, "-q", "-F", "-b", "4096", "-m", "0", "-I", "256", "-O", features, "-E", layout, "-N", count,
          fd_path(own, "").text, has_journal(request) ? "-J" : NULL, "size=4", (char *)NULL);
    _exit(127);
  }
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  errno = 0;
  if (child > 0 && status == 0) return 0;
  return fault_set(fault, "launch_failed", "mkfs.ext4 fails (status 0x%x)", (unsigned)status);
}

/* The device of that path where it has that file, else -1. */
static int loop_opened(const char *path, const struct stat *image) {
  cleanup_fd device = open(path, O_RDWR | O_CLOEXEC);
  struct loop_info64 info;
  if (device < 0 || ioctl(device, LOOP_GET_STATUS64, &info) != 0) return -1;
  return info.lo_inode == image->st_ino && info.lo_device == image->st_dev ? take_fd(&device) : -1;
}

/* By a file's inode, the device it was last given: a host may have had thousands of devices at once, which then stay. */
static uint32_t *loop_last(ino_t inode) {
  static uint32_t last[LOOPS_REMEMBERED];
  return &last[inode % LOOPS_REMEMBERED];
}

/* The device that has the file already. A second one would be a second writer below one file system's blocks. */
static int loop_find(int image, char *path, size_t size) {
  struct stat status;
  if (fstat(image, &status) != 0) return -1;
  snprintf(path, size, "/dev/loop%u", *loop_last(status.st_ino));
  int found = loop_opened(path, &status);
  if (found >= 0) return found;
  DIR *blocks = opendir("/sys/block");
  if (blocks == NULL) return -1;
  for (struct dirent *entry; found < 0 && (entry = readdir(blocks)) != NULL;) {
    char file[300];
    if (strncmp(entry->d_name, "loop", 4) != 0) continue;
    snprintf(file, sizeof file, "%s/loop", entry->d_name);
    if (faccessat(dirfd(blocks), file, F_OK, 0) != 0) continue; /* Not attached to anything. */
    snprintf(path, size, "/dev/%.24s", entry->d_name);
    found = loop_opened(path, &status);
  }
  closedir(blocks);
  return found;
}

/* A loop device on the file that frees itself with its last use. */
static int loop_attach(int image, char *path, size_t size, struct fault *fault) {
  /* The device keeps the open file it is configured with, and with that this lock: who gets it knows that no device
     has the image, without a look at every device of the host. */
  for (int tries = 0; flock(image, LOCK_EX | LOCK_NB) != 0; tries++) {
    int present = loop_find(image, path, size);
    if (present >= 0) return present;
    /* It is going. A device without the lock would look to the next one as if there were none: two writers. */
    if (tries == LOOP_WAITS) return fault_set(fault, "launch_failed", "the image's last loop device does not go");
    (void)usleep(LOOP_WAIT_US);
  }
  cleanup_fd control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
  for (int tries = 0; control >= 0 && tries < LOOP_TRIES; tries++) {
    int number = ioctl(control, LOOP_CTL_GET_FREE);
    if (number < 0) break;
    snprintf(path, size, "/dev/loop%d", number);
    cleanup_fd device = open(path, O_RDWR | O_CLOEXEC);
    if (device < 0) break;
    struct loop_config config = {.fd = (unsigned)image,
                                 .block_size = 4096,
                                 .info.lo_flags = LO_FLAGS_AUTOCLEAR,
                                 .info.lo_file_name = LOOP_MARK};
    if (ioctl(device, LOOP_CONFIGURE, &config) == 0) {
      struct stat status;
      if (fstat(image, &status) == 0) *loop_last(status.st_ino) = (uint32_t)number;
      return take_fd(&device);
    }
    if (errno != EBUSY) break; /* EBUSY: somebody else on the host took it first. */
  }
  return fault_set(fault, "launch_failed", "can't attach a loop device");
}

/* `option` is one more than all images have, or NULL. */
static int mount_image(const char *device, const char *option, struct fault *fault) {
  cleanup_fd context = sys_fsopen("ext4");
  if (context < 0 || sys_fsconfig(context, FSCONFIG_SET_STRING, "source", device) != 0 ||
      sys_fsconfig(context, FSCONFIG_SET_FLAG, "discard", NULL) != 0 ||
      /* The tables of unused inodes are holes in the file: nothing is gained by a kernel thread writing zeros there. */
      sys_fsconfig(context, FSCONFIG_SET_FLAG, "noinit_itable", NULL) != 0 ||
      (option != NULL && sys_fsconfig(context, FSCONFIG_SET_FLAG, option, NULL) != 0) ||
      sys_fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL) != 0) {
    return fault_set(fault, "launch_failed", "can't open the file system on %s", device);
  }
  int mount = sys_fsmount(context, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
  return mount >= 0 ? mount : fault_set(fault, "launch_failed", "can't mount %s", device);
}

/* `data` and `work` belong to the id that is the sandbox's root: the owner of the directory says which that is. */
static int give_parts(int mount, uid_t owner) {
  struct stat status;
  if (fstatat(mount, "data", &status, AT_SYMLINK_NOFOLLOW) != 0) return -1;
  if (status.st_uid != 0) return 0; /* Done at an earlier start; the sandbox may have changed it since. */
  if (fchownat(mount, "work", owner, owner, AT_SYMLINK_NOFOLLOW) != 0) return -1;
  return fchownat(mount, "data", owner, owner, AT_SYMLINK_NOFOLLOW);
}

/* What every upper begins with, so that a start finds it made. Closing the mount unmounts it before the next system
   call, so the template is then what a clean end of a machine leaves; an unused journal has nothing to be copied. */
static int furnish(int image, struct fault *fault) {
  char device[32];
  cleanup_fd loop = loop_attach(image, device, sizeof device, fault);
  if (loop < 0) return -1;
  cleanup_fd mount = mount_image(device, "noload", fault);
  if (mount < 0) return -1;
  /* Directories made at the top would get each another part of the disk. */
  if (mkdirat(mount, "lost+found/data", 0755) != 0 || renameat(mount, "lost+found/data", mount, "data") != 0 ||
      mkdirat(mount, "lost+found/work", 0700) != 0 || renameat(mount, "lost+found/work", mount, "work") != 0) {
    return fault_disk(fault, "launch_failed", "can't furnish an image template");
  }
  upper_spare_take(mount);
  upper_spare_give(mount, ROOT_RANGE_FIRST + 1);
  return 0;
}

/* A new upper of that size in memory: only its metadata takes room. */
static int template_of(const struct helper_request *request, struct fault *fault) {
  static struct template_image templates[TEMPLATES_MAX];
  static unsigned used;
  for (unsigned i = 0; i < used && i < TEMPLATES_MAX; i++) {
    if (templates[i].bytes_max == request->bytes_max && templates[i].inodes_max == request->inodes_max) {
      return templates[i].fd;
    }
  }
  /* The limit is what files may take: metadata comes on top. */
  uint64_t overhead = request->bytes_max / 60 + request->inodes_max * INODE_BYTES + OVERHEAD_BYTES_MIN;
  if (has_journal(request)) overhead += JOURNAL_BYTES;
  cleanup_fd fd = memfd_create("squash-upper", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)((request->bytes_max + overhead + 4095) & ~UINT64_C(4095))) != 0) {
    return fault_set(fault, "launch_failed", "can't make an image template");
  }
  if (run_mkfs(fd, request, fault) != 0 || furnish(fd, fault) != 0) return -1;
  struct template_image *slot = &templates[used++ % TEMPLATES_MAX];
  if (slot->bytes_max != 0) close(slot->fd);
  *slot = (struct template_image){request->bytes_max, request->inodes_max, take_fd(&fd)};
  return slot->fd;
}

static int copy_template(int template, int target) {
  struct stat status;
  static char block[1 << 16];
  if (fstat(template, &status) != 0 || ftruncate(target, status.st_size) != 0) return -1;
  for (off_t at = lseek(template, 0, SEEK_DATA); at >= 0;) {
    off_t end = lseek(template, at, SEEK_HOLE);
    off_t next = lseek(template, end, SEEK_DATA);
    for (; next >= 0 && next - end <= GAP_BYTES_MAX; next = lseek(template, end, SEEK_DATA)) {
      end = lseek(template, next, SEEK_HOLE);
    }
    if (next < 0 && errno != ENXIO) return -1;
    while (at < end) {
      size_t wanted = (size_t)(end - at) < sizeof block ? (size_t)(end - at) : sizeof block;
      ssize_t got = pread(template, block, wanted, at);
      errno = ENOSPC; /* What a short write means. */
      if (got <= 0 || pwrite(target, block, (size_t)got, at) != got) return -1;
      at += got;
    }
    at = next;
  }
  return 0;
}

/* A volume outlives the sandboxes whose shares of the disk are divided anew (room.c): its room is its own. */
static int set_aside(int image) {
  struct stat status;
  return fstat(image, &status) != 0 ? -1 : fallocate(image, 0, 0, status.st_size);
}

/* Its first block was never written to the disk, where a file system has its own facts: power went between the file's
   making and the first flush from inside. So nothing in it ever was on the disk. */
static bool is_hollow(int parent, const char *name) {
  cleanup_fd image = open_inside(parent, name, O_RDONLY | O_NONBLOCK);
  return image >= 0 && lseek(image, 0, SEEK_DATA) != 0;
}

int helper_image_create(int parent, const char *name, const struct helper_request *request, struct fault *fault) {
  char temporary[300];
  struct stat status;
  if (fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
    if (!S_ISREG(status.st_mode) || !is_hollow(parent, name)) return 0;
    (void)unlinkat(parent, name, 0);
  }
  errno = ERANGE;
  if (request->bytes_max < 1024 * 1024 || request->bytes_max > IMAGE_BYTES_MAX || request->inodes_max < 16 ||
      request->inodes_max > IMAGE_INODES_MAX) {
    return fault_set(fault, "invalid_request", "an image of %llu bytes and %llu inodes",
                     (unsigned long long)request->bytes_max, (unsigned long long)request->inodes_max);
  }
  int template = template_of(request, fault);
  if (template < 0) return -1;
  snprintf(temporary, sizeof temporary, "%s.tmp", name);
  (void)unlinkat(parent, temporary, 0);
  cleanup_fd fd = openat(parent, temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return fault_disk(fault, "launch_failed", "can't make image \"%s\"", name);
  /* Not synced: that costs more than all the rest, and a flush from inside the image syncs the whole file, so what a
     sandbox was told is on disk has its file system under it. */
  if (copy_template(template, fd) != 0 || (request->is_reserved && set_aside(fd) != 0) ||
      renameat(parent, temporary, parent, name) != 0) {
    fault_disk(fault, "launch_failed", "can't write image \"%s\"", name);
    (void)unlinkat(parent, temporary, 0);
    return -1;
  }
  return 0;
}

int helper_image_attach(int parent, const char *name, const struct helper_request *request, char device[32],
                        struct fault *fault) {
  struct stat status;
  /* Not what somebody mounted over the name, and without waiting for whoever would write into it. */
  cleanup_fd image = open_inside(parent, name, O_RDWR | O_NONBLOCK);
  if (image < 0 || fstat(image, &status) != 0) {
    return fault_set(fault, "launch_failed", "can't open image \"%s\"", name);
  }
  errno = 0;
  if (!S_ISREG(status.st_mode) || status.st_uid != 0 || (status.st_mode & 0777) != 0600 || status.st_nlink != 1) {
    return fault_set(fault, "launch_failed", "image \"%s\" is not one of the helper's", name);
  }
  cleanup_fd loop = loop_attach(image, device, 32, fault);
  if (loop < 0) return -1;
  cleanup_fd mount = mount_image(device, request->is_reserved ? "nodiscard" : NULL, fault);
  if (mount < 0) return -1;
  if (fchownat(mount, "", request->owner, request->owner, AT_EMPTY_PATH) != 0 ||
      give_parts(mount, request->owner) != 0) {
    return fault_disk(fault, "launch_failed", "can't prepare image \"%s\"", name);
  }
  upper_spare_give(mount, request->owner); /* Images of earlier versions. */
  if (request->bytes_max != UINT64_MAX && helper_image_grant(mount, request->bytes_max, fault) != 0) return -1;
  return take_fd(&mount);
}

int helper_image_map(const char *device, int namespace, struct fault *fault) {
  cleanup_fd mount = mount_image(device, NULL, fault); /* The kernel finds the file system that is there. */
  if (mount < 0) return -1;
  if (sys_map_ids(mount, namespace) == 0) return take_fd(&mount);
  return fault_set(fault, "launch_failed", "can't map the ids of the image on %s", device);
}

/* `loopN` of a mount whose device is a loop device of ours. */
static int loop_name(int mount, char name[32], uint64_t *device_bytes) {
  char link[64];
  char path[300];
  struct stat status;
  struct loop_info64 info;
  errno = EINVAL;
  if (fstat(mount, &status) != 0 || major(status.st_dev) != LOOP_MAJOR) return -1;
  snprintf(link, sizeof link, "/sys/dev/block/%u:%u", LOOP_MAJOR, minor(status.st_dev));
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return -1;
  path[length] = '\0';
  const char *slash = strrchr(path, '/');
  snprintf(name, 32, "%.24s", slash == NULL ? path : slash + 1);
  snprintf(path, sizeof path, "/dev/%.24s", name);
  cleanup_fd device = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (device < 0 || fstat(device, &status) != 0 || !S_ISBLK(status.st_mode)) return -1;
  off_t end = lseek(device, 0, SEEK_END);
  if (end <= 0 || ioctl(device, LOOP_GET_STATUS64, &info) != 0) return -1;
  *device_bytes = (uint64_t)end;
  errno = EPERM;
  return strcmp((const char *)info.lo_file_name, LOOP_MARK) == 0 ? 0 : -1;
}

int helper_image_grant(int mount, uint64_t share, struct fault *fault) {
  char name[32];
  char path[80];
  char text[32];
  struct statfs status;
  uint64_t device_bytes;
  if (loop_name(mount, name, &device_bytes) != 0 || fstatfs(mount, &status) != 0 || status.f_bsize <= 0) {
    return fault_set(fault, "invalid_request", "the helper was given no image of its own");
  }
  /* What ext4 keeps back by itself: the images are sized for it. */
  uint64_t block = (uint64_t)status.f_bsize;
  uint64_t own = device_bytes / block / 50;
  if (own > RESERVED_BLOCKS_MAX) own = RESERVED_BLOCKS_MAX;
  uint64_t free_blocks = status.f_bfree;
  uint64_t withheld = free_blocks > share / block ? free_blocks - share / block : 0;
  snprintf(path, sizeof path, "/sys/fs/ext4/%s/reserved_clusters", name);
  snprintf(text, sizeof text, "%llu", (unsigned long long)(withheld > own ? withheld : own));
  if (text_file_write(AT_FDCWD, path, text) == 0) return 0;
  return fault_set(fault, "launch_failed", "can't limit what \"%s\" takes", name);
}

void helper_image_ability(struct helper_abilities *abilities) {
  cleanup_fd control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
  abilities->has_images = control >= 0 && mkfs_program() != NULL;
  snprintf(abilities->images_detail, sizeof abilities->images_detail, "%s",
           control < 0                ? "no /dev/loop-control"
           : mkfs_program() == NULL ? "mkfs.ext4 is not installed"
                                      : "loop devices and mkfs.ext4");
}
