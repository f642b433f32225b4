/* The sandbox's root: see overlay.h. */
#include "launch/overlay.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

#include "launch/overlay_fuse.h"

/* The kernel takes one page of mount options; 500 lowers named `l/123` need 3,000 bytes. */
enum { OPTIONS_BYTES_MAX = 4096 };

static int overlay_options(const struct request *request, char *options, const char *extra) {
  int used = snprintf(options, OPTIONS_BYTES_MAX, "%supperdir=u/data,workdir=u/work,lowerdir=", extra);
  for (size_t i = 0; i < request->lower_count && used < OPTIONS_BYTES_MAX; i++) {
    used += snprintf(options + used, (size_t)(OPTIONS_BYTES_MAX - used), "%sl/%zu", i == 0 ? "" : ":", i);
  }
  return used < OPTIONS_BYTES_MAX ? 0 : -1;
}

int overlay_mount(const struct launcher *launcher, const struct starter_plan *plan, const struct request *request,
                  struct fault *fault) {
  char options[OPTIONS_BYTES_MAX];
  errno = E2BIG;
  if (overlay_options(request, options, launcher->overlays_by_fuse ? "" : "userxattr,") != 0) {
    return fault_set(fault, "launch_failed", "%zu layers do not fit", request->lower_count);
  }
  if (launcher->overlays_by_fuse) return overlay_mount_fuse(launcher, plan, options, fault);
  if (mount("overlay", "root", "overlay", MS_NODEV | MS_NOSUID, options) == 0) return 0;
  return fault_disk(fault, "launch_failed", "can't mount the overlay of upper \"%s\"", request->upper);
}
