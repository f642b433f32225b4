/* The kernel's modules: see modules.h. */
#include "boot/modules.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "boot/failure.h"
#include "common/descriptor.h"

static int is_file(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static void load(int directory, const char *name) {
  cleanup_fd fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
  /* One that this kernel has built in is no failure, nor one of what this VMM has not: KVM's clock under emulation. */
  bool is_loaded = fd >= 0 && (syscall(SYS_finit_module, fd, "", 0) == 0 || errno == EEXIST || errno == EOPNOTSUPP || errno == ENODEV);
  if (!is_loaded) boot_fail("load module %s", name);
  (void)unlinkat(directory, name, 0);
}

void modules_load(void) {
  struct dirent **names;
  cleanup_fd directory = open("/modules", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int count = directory < 0 ? -1 : scandir("/modules", &names, is_file, alphasort);
  if (count < 0) boot_fail("read /modules");
  for (int i = 0; i < count; i++) {
    load(directory, names[i]->d_name);
    free(names[i]);
  }
  free(names);
  (void)rmdir("/modules");
}
