/* What asks the privileged helper: see helper.h. */
#include "launch/helper.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "launch/helper_verbs.h"
#include "launch/ids.h"
#include "launch/message.h"
#include "common/syscalls.h"

_Static_assert((int)HELPER_DESCRIPTORS_MAX == 1 + (int)HELPER_TREES_MAX, "all trees of a request fit");
_Static_assert((int)HELPER_DESCRIPTORS_MAX <= (int)MESSAGE_DESCRIPTORS_MAX, "a request is one message");

/* What goes to the helper: one request, and for some verbs a process or trees. */
struct question {
  const struct helper_request *request;
  const int *descriptors;
  unsigned count;
};

/* With the socket its answer goes to; all is checked where it arrives. Exactly `count` descriptors come back. */
static int ask(int helper, const struct question *question, int *results, unsigned count, struct fault *fault) {
  int pair[2];
  struct helper_answer answer;
  errno = 0;
  if (helper < 0) return fault_set(fault, "launch_failed", "the launcher was not started by root and has no helper");
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return fault_set(fault, "launch_failed", "can't make a socket pair");
  }
  cleanup_fd own = pair[0];
  cleanup_fd other = pair[1];
  int descriptors[HELPER_DESCRIPTORS_MAX] = {other};
  memcpy(descriptors + 1, question->descriptors, question->count * sizeof descriptors[0]);
  if (message_send(helper, question->request, sizeof *question->request, descriptors, 1 + question->count) != 0) {
    return fault_set(fault, "launch_failed",
                     "the privileged helper is gone; `squash serve` starts another one within seconds");
  }
  close_fd(&other);
  if (message_receive_all(own, &answer, sizeof answer, results, count) != (ssize_t)sizeof answer) {
    return fault_set(fault, "launch_failed", "the privileged helper ended while it worked");
  }
  if (!answer.is_fine) {
    for (unsigned i = 0; i < count; i++) close_fd(&results[i]);
    /* Whoever has the daemon's id may have given us this helper: text of his choice, but no pointer. */
    answer.code[sizeof answer.code - 1] = '\0';
    *fault = answer.fault;
    fault->code = fault_code_named(answer.code);
    fault->text[sizeof fault->text - 1] = '\0';
    return -1;
  }
  if (count == 0 || results[0] >= 0) return 0;
  return fault_set(fault, "launch_failed", "the privileged helper does not give what it was asked for");
}

static int call(int helper, const struct helper_request *request, int process, int *result, struct fault *fault) {
  const struct question question = {request, &process, process < 0 ? 0 : 1};
  return ask(helper, &question, result, result == NULL ? 0 : 1, fault);
}

int helper_create_image(int helper, const struct request *request, struct fault *fault) {
  struct helper_request message = {
      .verb = HELPER_CREATE_IMAGE, .bytes_max = request->bytes_max, .inodes_max = request->inodes_max,
      .is_reserved = request->is_reserved};
  snprintf(message.path, sizeof message.path, "%s.img", request->upper);
  return call(helper, &message, -1, NULL, fault);
}

int helper_attach_image(int helper, const struct image_use *use, struct fault *fault) {
  int result = -1;
  struct helper_request message = {
      .verb = HELPER_ATTACH_IMAGE, .owner = ids_on_host(use->sandbox_root), .bytes_max = use->share,
      .is_reserved = use->is_reserved};
  snprintf(message.path, sizeof message.path, "%s.img", use->upper);
  return call(helper, &message, -1, &result, fault) == 0 ? result : -1;
}

int helper_map_trees(int helper, const struct tree_use *use, int mounts[2], struct fault *fault) {
  struct helper_request message = {.verb = HELPER_MAP_TREES, .owner = ids_on_host(use->sandbox_root)};
  if (use->image != NULL) {
    message.bytes_max = use->image->share;
    message.is_reserved = use->image->is_reserved;
    snprintf(message.path, sizeof message.path, "%s.img", use->image->upper);
  }
  const struct question question = {&message, use->trees, use->tree_count};
  return ask(helper, &question, mounts, use->image == NULL ? 0 : 2, fault);
}

int helper_grant_image(int helper, int mount, uint64_t share) {
  const struct helper_request message = {.verb = HELPER_GRANT_IMAGE, .bytes_max = share};
  return helper < 0 ? -1 : message_offer(helper, &message, sizeof message, &mount, 1);
}

int helper_look(int helper) {
  int pair[2];
  const struct helper_request message = {.verb = HELPER_LOOK};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return -1;
  cleanup_fd own = pair[0];
  cleanup_fd other = pair[1];
  return message_offer(helper, &message, sizeof message, &other, 1) == 0 ? take_fd(&own) : -1;
}

int helper_set_project(int helper, const struct request *request, struct fault *fault) {
  struct helper_request message = {
      .verb = HELPER_SET_PROJECT, .bytes_max = request->bytes_max, .inodes_max = request->inodes_max};
  snprintf(message.path, sizeof message.path, "%s", request->upper);
  return call(helper, &message, -1, NULL, fault);
}

int helper_open_fuse(int helper, pid_t member, struct fault *fault) {
  int result = -1;
  struct helper_request message = {.verb = HELPER_OPEN_FUSE};
  cleanup_fd pidfd = sys_pidfd_open(member);
  if (pidfd < 0) return fault_set(fault, "launch_failed", "the starter is gone");
  return call(helper, &message, pidfd, &result, fault) == 0 ? result : -1;
}

int helper_make_devices(int helper, unsigned sandbox_root, struct fault *fault) {
  int result = -1;
  struct helper_request message = {.verb = HELPER_MAKE_DEVICES, .owner = ids_on_host(sandbox_root)};
  return call(helper, &message, -1, &result, fault) == 0 ? result : -1;
}

int helper_make_vmm_device(int helper, unsigned sandbox_root, unsigned device, struct fault *fault) {
  int result = -1;
  struct helper_request message = {.verb = HELPER_MAKE_DEVICES, .owner = ids_on_host(sandbox_root), .vmm_device = 1 + device};
  return call(helper, &message, -1, &result, fault) == 0 ? result : -1;
}

int helper_join_group(int helper, pid_t pid, struct fault *fault) {
  struct helper_request message = {.verb = HELPER_JOIN_GROUP};
  cleanup_fd pidfd = sys_pidfd_open(pid);
  if (pidfd < 0) return fault_set(fault, "launch_failed", "process %d is gone", pid);
  return call(helper, &message, pidfd, NULL, fault);
}

int helper_abilities(int helper, struct helper_abilities *abilities, struct fault *fault) {
  int result = -1;
  struct helper_request message = {.verb = HELPER_ABILITIES};
  if (call(helper, &message, -1, &result, fault) != 0) return -1;
  cleanup_fd pipe = result;
  if (pipe >= 0 && read_whole(pipe, abilities, sizeof *abilities) == 1) return 0;
  return fault_set(fault, "launch_failed", "the privileged helper does not tell what it can do");
}
