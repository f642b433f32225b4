/*
 * The privileged helper: the only process of Squash that keeps root's rights, in the host's namespaces, and only
 * where root started Squash. It does exactly what is below and gives descriptors back. Paths are relative to the data
 * directory, which it has opened itself, outside: no link is followed, and what is mounted inside it does not see.
 * docs/internals/launch.md has its rules as a table.
 */
#ifndef SQUASH_LAUNCH_HELPER_H
#define SQUASH_LAUNCH_HELPER_H
#include <sys/types.h>

#include "common/fault.h"
#include "launch/request.h"

/* `<upper>.img` of the request's size, where it says so with all its room; an image that exists is kept. */
int helper_create_image(int helper, const struct request *request, struct fault *fault);
/* Which image, and for whom. */
struct image_use {
  const char *upper; /* its path below the data directory */
  unsigned sandbox_root; /* id of the sandbox's root in the daemon's namespace */
  bool is_reserved;      /* its room was set aside: what is deleted in it stays its own */
  uint64_t share;        /* how many bytes it may give out until it gets another grant; UINT64_MAX: all */
};
/* Mounts the image. Returns a detached mount; the loop device goes when the last use of it does. */
int helper_attach_image(int helper, const struct image_use *use, struct fault *fault);
/* What a sandbox with ids of its own is made of. On disk all files have those of the common range. */
struct tree_use {
  const struct image_use *image; /* NULL: none */
  unsigned sandbox_root;         /* as the trees are to show it: the first of a range of its own (ranges.h) */
  const int *trees;              /* detached mounts of the caller's */
  unsigned tree_count;           /* at most HELPER_TREES_MAX */
};
enum { HELPER_TREES_MAX = 60 };
/* Puts the trees into the range's ids. `mounts` gets those of the image, where there is one: as it is, and mapped. */
int helper_map_trees(int helper, const struct tree_use *use, int mounts[2], struct fault *fault);
/* From now on the file system of that mount gives out so many bytes more. Nobody waits for an answer; -1 where the
   helper does not even take the request. */
int helper_grant_image(int helper, int mount, uint64_t share);
/* Asks for nothing but an answer and does not wait: returns the socket that a byte or more comes by, -1 where there is
   none; with EAGAIN, because the helper does not even take the request. */
int helper_look(int helper);
/* Gives the tree a project of its own with the request's limits. */
int helper_set_project(int helper, const struct request *request, struct fault *fault);
/* /dev/fuse, opened as a member of that process's user namespace, which is what the kernel asks of a mount there. */
int helper_open_fuse(int helper, pid_t member, struct fault *fault);

/* A detached file system of a few pages that holds a sandbox's device nodes, made anew; its root belongs to the sandbox's root. The data
   directory says whose helper it is. */
int helper_make_devices(int helper, unsigned sandbox_root, struct fault *fault);

/* The same with one device of the host, under its name, and nothing else: a VMM's (`struct request`). */
int helper_make_vmm_device(int helper, unsigned sandbox_root, unsigned device, struct fault *fault);

/* Puts a process of the daemon's id into the egress process's group: in version 2 nobody else may, where the groups
   stand beside the service's own. */
int helper_join_group(int helper, pid_t pid, struct fault *fault);

/* What the data directory's file system can do for uppers; asked at start. */
struct helper_abilities {
  bool has_images;
  bool has_projects;
  char images_detail[160];
  char projects_detail[160];
};
int helper_abilities(int helper, struct helper_abilities *abilities, struct fault *fault);

#endif
