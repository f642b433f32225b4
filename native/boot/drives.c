/* The machine's drives: see drives.h. */
#include "boot/drives.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "boot/failure.h"
#include "common/descriptor.h"

enum {
  SERIAL_BYTES_MAX = 20, /* what virtio gives one */
  LETTERS = 26,          /* far more than a machine without serials takes drives */
  NAMED_MAX = 64,        /* far more than one with serials does */
};

static struct named {
  char device[16];
  char serial[SERIAL_BYTES_MAX + 2];
} named[NAMED_MAX];
static unsigned named_count;

static bool read_serial(int blocks, struct named *found) {
  char path[64];
  (void)snprintf(path, sizeof path, "%s/serial", found->device);
  cleanup_fd fd = openat(blocks, path, O_RDONLY | O_CLOEXEC);
  ssize_t got = fd < 0 ? -1 : read(fd, found->serial, sizeof found->serial - 1);
  if (got <= 0) return false;
  found->serial[got] = '\0';
  found->serial[strcspn(found->serial, "\n")] = '\0';
  return true;
}

void drives_look(void) {
  DIR *blocks = opendir("/sys/block");
  if (blocks == NULL) boot_fail("read /sys/block");
  for (struct dirent *entry; named_count < NAMED_MAX && (entry = readdir(blocks)) != NULL;) {
    struct named *next = &named[named_count];
    size_t length = strlen(entry->d_name);
    if (strncmp(entry->d_name, "vd", 2) != 0 || length >= sizeof next->device) continue;
    memcpy(next->device, entry->d_name, length + 1);
    named_count += read_serial(dirfd(blocks), next);
  }
  (void)closedir(blocks);
}

/* Empty where there is none. */
static void find(const struct drive *drive, char path[32]) {
  path[0] = '\0';
  if (drive->place >= 0 && drive->place < LETTERS) (void)snprintf(path, 32, "/dev/vd%c", 'a' + drive->place);
  for (unsigned i = 0; drive->place < 0 && i < named_count; i++) {
    if (strcmp(named[i].serial, drive->serial) == 0) (void)snprintf(path, 32, "/dev/%s", named[i].device);
  }
}

bool drive_begins(const struct drive *drive, const char *bytes) {
  char path[32], found[16];
  size_t length = strlen(bytes);
  find(drive, path);
  cleanup_fd fd = open(path, O_RDONLY | O_CLOEXEC);
  return fd >= 0 && length <= sizeof found && read(fd, found, length) == (ssize_t)length && memcmp(found, bytes, length) == 0;
}

static int mount_at(const char *path, const struct drive_mount *how) {
  return mount(path, how->to, how->type, MS_NOSUID | MS_NODEV | how->flags, how->options);
}

int drive_mount_try(const struct drive *drive, const struct drive_mount *how) {
  char path[32];
  find(drive, path);
  return mount_at(path, how);
}

void drive_mount(const struct drive *drive, const struct drive_mount *how) {
  char path[32];
  find(drive, path);
  errno = ENODEV;
  if (path[0] == '\0') boot_fail("find drive \"%s\"", drive->serial);
  if (mount_at(path, how) != 0) boot_fail("mount drive \"%s\" as %s", drive->serial, how->type);
}
