/* New files go to many parts of the disk: see spread.h. */
#include "launch/spread.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/descriptor.h"

enum { PLACES_MAX = 64 };

static unsigned places;

void spread_directory(int directory) {
  int flags;
  if (directory < 0 || syscall(SYS_ioctl, directory, FS_IOC_GETFLAGS, &flags) != 0 || (flags & FS_TOPDIR_FL) != 0) return;
  flags |= FS_TOPDIR_FL;
  (void)syscall(SYS_ioctl, directory, FS_IOC_SETFLAGS, &flags);
}

void spread_prepare(int directory) {
  char name[8];
  (void)mkdirat(directory, "new", 0700);
  cleanup_fd new = openat(directory, "new", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (new < 0) return;
  spread_directory(new);
  for (places = 0; places < PLACES_MAX; places++) {
    snprintf(name, sizeof name, "%u", places);
    if (mkdirat(new, name, 0700) != 0 && errno != EEXIST) return;
  }
}

void spread_name(uint64_t instance, char name[SPREAD_NAME_BYTES]) {
  if (places == 0) snprintf(name, SPREAD_NAME_BYTES, "file");
  else snprintf(name, SPREAD_NAME_BYTES, "new/%u/file", (unsigned)(instance % places));
}
