/* The privileged helper's messages and verbs; included by its own files only. */
#ifndef SQUASH_LAUNCH_HELPER_VERBS_H
#define SQUASH_LAUNCH_HELPER_VERBS_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "launch/fault.h"
#include "launch/file.h"
#include "launch/message.h"

struct cgroup_setup;
struct helper_abilities;

enum helper_verb {
  HELPER_CREATE_IMAGE = 1,
  HELPER_ATTACH_IMAGE,
  HELPER_SET_PROJECT,
  HELPER_OPEN_FUSE,
  HELPER_ABILITIES,
  HELPER_JOIN_GROUP,
  HELPER_MAKE_DEVICES,
  HELPER_GRANT_IMAGE, /* has no answer: its only descriptor is the mount */
  HELPER_MAP_TREES,
};

struct helper_request {
  enum helper_verb verb;
  char path[REQUEST_PATH_BYTES_MAX + 1]; /* of an image or an upper, below the data directory */
  uint64_t bytes_max; /* the size; of an image that is used, its share */
  uint64_t inodes_max;
  /* The host's id of the sandbox's root: one of the common range's first two; of devices also, and of MAP_TREES always, the
     first of a range of its own. */
  uid_t owner;
};

/* Of trees in one request: as many as one answer has descriptors for, with an image's two. */
enum { HELPER_NAMES_MAX = 60, HELPER_NAMES_BYTES_MAX = HELPER_NAMES_MAX * (REQUEST_PATH_BYTES_MAX + 1) };

/* MAP_TREES has names behind it, each with its end; no other verb has any. */
struct helper_message {
  struct helper_request request;
  char names[HELPER_NAMES_BYTES_MAX];
};

struct helper_results {
  int all[MESSAGE_DESCRIPTORS_MAX];
  unsigned count;
};

struct helper_answer {
  bool is_fine;
  struct fault fault; /* its code is a pointer and means nothing to who receives it */
  char code[32];      /* the same as text */
};

int helper_image_create(int parent, const char *name, const struct helper_request *request, struct fault *fault);
/* `device` gets the path of its loop device. */
int helper_image_attach(int parent, const char *name, const struct helper_request *request, char device[32],
                        struct fault *fault);
/* The same file system once more, in the ids of that user namespace. `device` is what attaching it told. */
int helper_image_map(const char *device, int namespace, struct fault *fault);
int helper_image_grant(int mount, uint64_t share, struct fault *fault);
void helper_image_ability(struct helper_abilities *abilities);
/* The named trees behind what `results` holds already. */
int helper_trees_map(int data_fd, const char *names, size_t bytes, int namespace, struct helper_results *results,
                     struct fault *fault);
int helper_devices_make(const struct helper_request *request, struct fault *fault);
/* About a process that somebody else named, by pidfd: it and its user namespace have to be of the daemon's ids. */
int helper_member_join(const struct cgroup_setup *groups, int pidfd, struct fault *fault);
int helper_member_fuse(int pidfd, struct fault *fault);
int helper_project_set(int upper, const struct helper_request *request, struct fault *fault);
void helper_project_ability(int data_fd, struct helper_abilities *abilities);
/* For the rest of its life, its children's and mkfs's. */
int helper_filter_load(struct fault *fault);

#endif
