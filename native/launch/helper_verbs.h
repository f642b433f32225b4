/* The privileged helper's messages and verbs; included by its own files only. */
#ifndef SQUASH_LAUNCH_HELPER_VERBS_H
#define SQUASH_LAUNCH_HELPER_VERBS_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/fault.h"
#include "common/file.h"

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
  HELPER_MAP_TREES,   /* may have two, and changes what came with it */
  HELPER_LOOK,        /* asks for nothing but an answer */
};

struct helper_request {
  enum helper_verb verb;
  char path[REQUEST_PATH_BYTES_MAX + 1]; /* of an image or an upper, below the data directory */
  uint64_t bytes_max; /* the size; of an image that is used, its share */
  uint64_t inodes_max;
  bool is_reserved; /* of an image: its room is set aside when it is made, and stays so */
  /* The host's id of the sandbox's root: one of the common range's first two; of devices also, and of MAP_TREES always, the
     first of a range of its own. */
  uid_t owner;
  unsigned vmm_device; /* of devices: 1 + this one of a VMM, alone; 0: those of every sandbox */
};

/* What comes with a request: where its answer goes, then a process, or the trees of MAP_TREES. */
enum { HELPER_DESCRIPTORS_MAX = 61 };

/* Of MAP_TREES an image's mounts, without and with the map; one descriptor of others. */
struct helper_results {
  int all[2];
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
/* Until the first that is none (-1). */
int helper_trees_map(const int *trees, unsigned max, int namespace, struct fault *fault);
int helper_devices_make(const struct helper_request *request, struct fault *fault);
/* About a process that somebody else named, by pidfd: it and its user namespace have to be of the daemon's ids. */
int helper_member_join(const struct cgroup_setup *groups, int pidfd, struct fault *fault);
int helper_member_fuse(int pidfd, struct fault *fault);
int helper_project_set(int upper, const struct helper_request *request, struct fault *fault);
void helper_project_ability(int data_fd, struct helper_abilities *abilities);
/* For the rest of its life, its children's and mkfs's. */
int helper_filter_load(struct fault *fault);

#endif
