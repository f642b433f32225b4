/* The egress process's group: see group.h. */
#include "launch/group.h"

#include <errno.h>
#include <string.h>

#include "launch/cgroup.h"
#include "launch/helper.h"

int group_join(const struct launcher *launcher, const struct request *request, struct frame_writer *writer,
               struct fault *fault) {
  struct cgroup_limits limits = {.memory_bytes = request->memory_bytes_max};
  errno = 0;
  if (strcmp(request->name, CGROUP_EGRESS) != 0) {
    return fault_set(fault, "invalid_request", "there is no group \"%s\" to join", request->name);
  }
  if (launcher->cgroups.version == 0) {
    frame_text(writer, FIELD_WARNING, launcher->cgroups.detail);
    return 0;
  }
  if (cgroup_create(&launcher->cgroups, CGROUP_EGRESS, &limits, fault) != 0) return -1;
  if (cgroup_place(&launcher->cgroups, CGROUP_EGRESS, (pid_t)request->pid, fault) == 0) return 0;
  return launcher->helper_fd < 0 ? -1 : helper_join_group(launcher->helper_fd, (pid_t)request->pid, fault);
}

void group_remove(const struct launcher *launcher) {
  if (launcher->cgroups.version != 0) (void)cgroup_remove(&launcher->cgroups, CGROUP_EGRESS);
}
