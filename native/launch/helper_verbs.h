/* The privileged helper's messages and verbs; included by its own files only. */
#ifndef SQUASH_LAUNCH_HELPER_VERBS_H
#define SQUASH_LAUNCH_HELPER_VERBS_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "launch/fault.h"
#include "launch/file.h"

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
};

struct helper_request {
  enum helper_verb verb;
  char path[REQUEST_PATH_BYTES_MAX + 1]; /* of an image or an upper, below the data directory */
  uint64_t bytes_max; /* the size; of an image that is used, its share */
  uint64_t inodes_max;
  uid_t owner; /* the host's id of the sandbox's root, one of the range's first two */
};

struct helper_answer {
  bool is_fine;
  struct fault fault; /* its code is a pointer and means nothing to who receives it */
  char code[32];      /* the same as text */
};

int helper_image_create(int parent, const char *name, const struct helper_request *request, struct fault *fault);
int helper_image_attach(int parent, const char *name, const struct helper_request *request, struct fault *fault);
int helper_image_grant(int mount, uint64_t share, struct fault *fault);
void helper_image_ability(struct helper_abilities *abilities);
int helper_devices_make(const struct helper_request *request, struct fault *fault);
/* About a process that somebody else named, by pidfd: it and its user namespace have to be of the daemon's ids. */
int helper_member_join(const struct cgroup_setup *groups, int pidfd, struct fault *fault);
int helper_member_fuse(int pidfd, struct fault *fault);
int helper_project_set(int upper, const struct helper_request *request, struct fault *fault);
void helper_project_ability(int data_fd, struct helper_abilities *abilities);
/* For the rest of its life, its children's and mkfs's. */
int helper_filter_load(struct fault *fault);

#endif
