/* The egress process's group: see group.h. */
#include "launch/group.h"

#include <errno.h>
#include <string.h>

#include "launch/cgroup.h"

/* The one group beside the sandboxes', whose names are `s` and a number. */
static const char group[] = "egress";

int group_join(const struct launcher *launcher, const struct request *request, struct frame_writer *writer,
               struct fault *fault) {
  struct cgroup_limits limits = {.memory_bytes = request->memory_bytes_max};
  errno = 0;
  if (strcmp(request->name, group) != 0) {
    return fault_set(fault, "invalid_request", "there is no group \"%s\" to join", request->name);
  }
  if (launcher->cgroups.version == 0) {
    frame_text(writer, FIELD_WARNING, launcher->cgroups.detail);
    return 0;
  }
  if (cgroup_create(&launcher->cgroups, group, &limits, fault) != 0) return -1;
  return cgroup_place(&launcher->cgroups, group, (pid_t)request->pid, fault);
}

void group_remove(const struct launcher *launcher) {
  if (launcher->cgroups.version != 0) (void)cgroup_remove(&launcher->cgroups, group);
}
