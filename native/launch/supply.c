/* What a start needs from outside: see supply.h. */
#include "launch/supply.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/file.h"
#include "launch/helper.h"
#include "launch/ids.h"
#include "launch/message.h"
#include "launch/mounts.h"
#include "launch/place_trees.h"
#include "launch/ranges.h"
#include "launch/sandbox.h"
#include "common/syscalls.h"
#include "launch/upper.h"
#include "launch/vmm_devices.h"

/* The first message, with the socket and the upper along; the texts come in the next, the lowers in some more, other mounts in one. */
struct supply_head {
  struct fault fault; /* `code` is NULL where all went well; it points into the program, which both have in common */
  struct request request; /* its pointers mean nothing on the other side */
  size_t text_bytes;
};

enum {
  TEXTS = 4, /* and two of each mount: where it is seen, and what its kind needs besides */
  TARGETS_BYTES_MAX = 131072, /* of all places: a message holds 200 KB */
  TEXT_BYTES_MAX = 2 * ETC_FILE_BYTES_MAX + 3 * REQUEST_PATH_BYTES_MAX + TARGETS_BYTES_MAX,
};

static int take(const struct launcher *launcher, const char *path, struct fault *fault) {
  /* Who asks may make links in the data directory and reach nothing beside it; open_tree would follow them for him. */
  cleanup_fd directory = open_beneath(launcher->data_fd, path, O_PATH | O_DIRECTORY);
  int tree = directory < 0 ? -1 : sys_open_tree(directory, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  return tree >= 0 ? tree : fault_disk(fault, "launch_failed", "can't attach \"%s\"", path);
}

/* A tmpfs is the launcher's own file system, and lies where the helper does not see it. */
static int map_tmpfs(const struct launcher *launcher, const struct supply_plan *plan, int *upper, struct fault *fault) {
  char map[32];
  if (upper_attach(launcher, plan->request, upper, fault) != 0) return -1;
  cleanup_fd tree = take(launcher, plan->request->upper, fault);
  if (tree < 0) return -1;
  snprintf(map, sizeof map, "%u %u %u\n", sandbox_root_id(launcher), plan->root_id, SANDBOX_IDS);
  cleanup_fd namespace = ids_namespace(map);
  if (namespace < 0 || sys_map_ids(tree, namespace) != 0) {
    return fault_set(fault, "launch_failed", "can't map the ids of upper \"%s\"", plan->request->upper);
  }
  *upper = take_fd(&tree);
  return 0;
}

/* Puts what was gathered into the ids of the sandbox's own range; an image comes in both ways. */
static int map_trees(const struct launcher *launcher, const struct supply_plan *plan, struct supply *supply,
                     struct fault *fault) {
  static int trees[1 + LOWERS_MAX];
  const struct request *request = plan->request;
  const struct image_use image = {
      .upper = request->upper, .sandbox_root = sandbox_root_id(launcher), .share = launcher->image_share};
  bool is_image = request->upper_kind == UPPER_IMAGE;
  size_t count = 0;
  if (!is_image && request->upper_kind != UPPER_TMPFS) trees[count++] = supply->upper;
  for (size_t i = 0; i < request->lower_count; i++) trees[count++] = supply->lowers[i];
  for (size_t done = 0; done == 0 || done < count; done += HELPER_TREES_MAX) {
    int mounts[2];
    unsigned some = count - done < HELPER_TREES_MAX ? (unsigned)(count - done) : HELPER_TREES_MAX;
    const struct tree_use use = {is_image && done == 0 ? &image : NULL, plan->root_id, trees + done, some};
    if (helper_map_trees(launcher->helper_fd, &use, mounts, fault) != 0) return -1;
    if (use.image == NULL) continue;
    supply->image = mounts[0];
    supply->upper = mounts[1];
  }
  return 0;
}

static int gather(const struct launcher *launcher, const struct supply_plan *plan, struct supply *supply,
                  struct fault *fault) {
  const struct request *request = plan->request;
  bool is_own = ranges_is_own(plan->root_id);
  if (request->makes_upper && upper_create(launcher, request, fault) != 0) return -1;
  if (is_own && request->upper_kind == UPPER_TMPFS) {
    if (map_tmpfs(launcher, plan, &supply->upper, fault) != 0) return -1;
  } else if (!is_own || request->upper_kind != UPPER_IMAGE) {
    if (upper_attach(launcher, request, &supply->upper, fault) != 0) return -1;
    if (supply->upper >= 0) supply->image = dup(supply->upper);
    else supply->upper = take(launcher, request->upper, fault);
    if (supply->upper < 0) return -1;
  }
  for (size_t i = 0; i < request->lower_count; i++) {
    supply->lowers[i] = take(launcher, request->lowers[i], fault);
    if (supply->lowers[i] < 0) return -1;
  }
  if (is_own && map_trees(launcher, plan, supply, fault) != 0) return -1;
  if (vmm_devices_gather(launcher, request, plan->root_id, supply->vmm_devices, fault) != 0) return -1;
  /* Images last: they leave this mount namespace. */
  if (places_take_all(launcher, request, plan->root_id, supply->mounts, fault) != 0) return -1;
  return mounts_take_all(launcher, request, plan->root_id, supply->mounts, fault);
}

/* One after the other, each with its end. */
static size_t join_texts(const struct request *request, char *joined) {
  const char *const texts[TEXTS] = {request->hostname, request->upper, request->hosts, request->resolv_conf};
  size_t used = 0;
  for (size_t i = 0; i < TEXTS + 2 * request->mount_count; i++) {
    const struct mount_wish *wish = i < TEXTS ? NULL : &request->mounts[(i - TEXTS) / 2];
    const char *text = wish == NULL ? texts[i] : (i - TEXTS) % 2 == 0 ? wish->target : places_detail(wish);
    size_t length = strlen(text) + 1;
    if (used + length > TEXT_BYTES_MAX) return 0;
    memcpy(joined + used, text, length);
    used += length;
  }
  return used;
}

/* An image may take its time: what else the launcher has open, of other starts and of sandboxes that went, must not stay
   open as long. */
static int keep_descriptors(struct launcher *launcher, int *listen_fd, int *socket) {
  int *const kept[] = {listen_fd, socket, &launcher->data_fd, &launcher->helper_fd};
  enum { FIRST = 3, COUNT = sizeof kept / sizeof kept[0] };
  int from[COUNT];
  int count = launcher->helper_fd < 0 ? COUNT - 1 : COUNT;
  for (int i = 0; i < count; i++) from[i] = *kept[i];
  if (place_descriptors(from, count) != 0) return -1;
  for (int i = 0; i < count; i++) *kept[i] = FIRST + i;
  close_from(FIRST + count);
  return 0;
}

_Noreturn void supply_main(const struct launcher *inherited, const struct supply_plan *plan) {
  static char joined[TEXT_BYTES_MAX];
  struct launcher own = *inherited;
  const struct launcher *launcher = &own;
  const struct request *request = plan->request;
  int listen_fd = plan->listen_fd;
  int socket = plan->socket;
  struct supply supply = {.upper = -1, .image = -1};
  struct supply_head head = {.request = *request, .text_bytes = join_texts(request, joined)};
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (keep_descriptors(&own, &listen_fd, &socket) != 0) _exit(1);
  if (head.text_bytes == 0) fault_set(&head.fault, "launch_failed", "the texts of a start are too long");
  else (void)gather(launcher, plan, &supply, &head.fault);
  const int first[] = {listen_fd, supply.upper, supply.image};
  bool is_fine = head.fault.code == NULL;
  unsigned first_count = supply.image < 0 ? 2 : 3;
  if (message_send(socket, &head, sizeof head, first, is_fine ? first_count : 0) != 0 || !is_fine) _exit(1);
  if (message_send(socket, joined, head.text_bytes, NULL, 0) != 0) _exit(1);
  for (size_t done = 0; done < request->lower_count; done += MESSAGE_DESCRIPTORS_MAX) {
    size_t left = request->lower_count - done;
    unsigned count = left < MESSAGE_DESCRIPTORS_MAX ? (unsigned)left : MESSAGE_DESCRIPTORS_MAX;
    if (message_send(socket, "l", 1, supply.lowers + done, count) != 0) _exit(1);
  }
  int trees[MOUNTS_MAX];
  unsigned tree_count = 0;
  for (size_t i = 0; i < request->mount_count; i++) {
    if (places_have_tree(&request->mounts[i])) trees[tree_count++] = supply.mounts[i];
  }
  for (unsigned done = 0; done < tree_count; done += MESSAGE_DESCRIPTORS_MAX) {
    unsigned count = tree_count - done < MESSAGE_DESCRIPTORS_MAX ? tree_count - done : MESSAGE_DESCRIPTORS_MAX;
    if (message_send(socket, "m", 1, trees + done, count) != 0) _exit(1);
  }
  for (unsigned i = 0; i < VMM_DEVICES; i++) {
    if ((request->vmm_devices & 1U << i) != 0 && message_send(socket, "d", 1, &supply.vmm_devices[i], 1) != 0) _exit(1);
  }
  _exit(0);
}

static int split_texts(struct request *request, char *joined, size_t bytes) {
  const char **const texts[TEXTS] = {&request->hostname, &request->upper, &request->hosts, &request->resolv_conf};
  char *at = joined;
  for (size_t i = 0; i < TEXTS + 2 * request->mount_count; i++) {
    char *end = memchr(at, '\0', bytes - (size_t)(at - joined));
    if (end == NULL) return -1;
    struct mount_wish *wish = i < TEXTS ? NULL : &request->mounts[(i - TEXTS) / 2];
    if (wish == NULL) *texts[i] = at;
    else if ((i - TEXTS) % 2 == 0) wish->target = at;
    else {
      wish->source = wish->identity = wish->own == NULL ? at : "";
      if (wish->own != NULL) wish->own = at;
    }
    at = end + 1;
  }
  return 0;
}

static int receive_mounts(int socket, struct supply *supply) {
  int trees[MESSAGE_DESCRIPTORS_MAX];
  unsigned left = 0;
  for (size_t i = 0; i < supply->request.mount_count; i++) left += places_have_tree(&supply->request.mounts[i]);
  unsigned at = 0;
  unsigned held = 0;
  for (size_t i = 0; i < supply->request.mount_count; i++) {
    supply->mounts[i] = -1;
    if (!places_have_tree(&supply->request.mounts[i])) continue;
    if (at == held) {
      char byte;
      at = 0;
      held = left < MESSAGE_DESCRIPTORS_MAX ? left : MESSAGE_DESCRIPTORS_MAX;
      left -= held;
      if (message_receive_all(socket, &byte, 1, trees, held) != 1 || trees[0] < 0) return -1;
    }
    supply->mounts[i] = trees[at++];
  }
  return 0;
}

static int receive_devices(int socket, struct supply *supply) {
  for (unsigned i = 0; i < VMM_DEVICES; i++) {
    char byte;
    supply->vmm_devices[i] = -1;
    if ((supply->request.vmm_devices & 1U << i) == 0) continue;
    if (message_receive_all(socket, &byte, 1, &supply->vmm_devices[i], 1) != 1 || supply->vmm_devices[i] < 0) return -1;
  }
  return 0;
}

int supply_receive(int socket, struct supply *supply, struct fault *fault) {
  static char joined[TEXT_BYTES_MAX];
  struct supply_head head;
  int first[3];
  errno = 0;
  if (message_receive_some(socket, &head, sizeof head, first, 3) != (ssize_t)sizeof head) {
    return fault_set(fault, "launch_failed", "what a start needs did not come");
  }
  if (head.fault.code != NULL) {
    *fault = head.fault;
    return -1;
  }
  *supply = (struct supply){.request = head.request, .listen_fd = first[0], .upper = first[1], .image = first[2]};
  ssize_t bytes = recv(socket, joined, sizeof joined, 0);
  bool is_whole = first[0] >= 0 && first[1] >= 0 && bytes > 0 && split_texts(&supply->request, joined, (size_t)bytes) == 0;
  for (size_t done = 0; is_whole && done < supply->request.lower_count; done += MESSAGE_DESCRIPTORS_MAX) {
    char byte;
    size_t left = supply->request.lower_count - done;
    unsigned count = left < MESSAGE_DESCRIPTORS_MAX ? (unsigned)left : MESSAGE_DESCRIPTORS_MAX;
    is_whole = message_receive_all(socket, &byte, 1, supply->lowers + done, count) == 1 && supply->lowers[done] >= 0;
  }
  is_whole = is_whole && receive_mounts(socket, supply) == 0 && receive_devices(socket, supply) == 0;
  return is_whole ? 0 : fault_set(fault, "launch_failed", "what a start needs did not come whole");
}
