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
};

static bool has_serial(int blocks, const char *device, const char *serial) {
  char path[300], found[SERIAL_BYTES_MAX + 2];
  (void)snprintf(path, sizeof path, "%s/serial", device);
  cleanup_fd fd = openat(blocks, path, O_RDONLY | O_CLOEXEC);
  ssize_t got = fd < 0 ? -1 : read(fd, found, sizeof found - 1);
  if (got <= 0) return false;
  found[got] = '\0';
  found[strcspn(found, "\n")] = '\0';
  return strcmp(found, serial) == 0;
}

static void find_serial(const char *serial, char path[300]) {
  DIR *blocks = opendir("/sys/block");
  if (blocks == NULL) boot_fail("read /sys/block");
  for (struct dirent *entry; path[0] == '\0' && (entry = readdir(blocks)) != NULL;) {
    if (strncmp(entry->d_name, "vd", 2) != 0 || !has_serial(dirfd(blocks), entry->d_name, serial)) continue;
    (void)snprintf(path, 300, "/dev/%s", entry->d_name);
  }
  (void)closedir(blocks);
}

void drive_mount(const struct drive *drive, const char *to, const char *type, unsigned long flags, const char *options) {
  char path[300] = "";
  if (drive->place < 0) find_serial(drive->serial, path);
  else if (drive->place < LETTERS) (void)snprintf(path, sizeof path, "/dev/vd%c", 'a' + drive->place);
  errno = ENODEV;
  if (path[0] == '\0') boot_fail("find drive \"%s\"", drive->serial);
  if (mount(path, to, type, MS_NOSUID | MS_NODEV | flags, options) != 0) boot_fail("mount drive \"%s\" as %s", drive->serial, type);
}
