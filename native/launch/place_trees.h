/* What the places of a box (places.h) are made of, gathered outside with the launcher's rights. */
#ifndef SQUASH_LAUNCH_PLACE_TREES_H
#define SQUASH_LAUNCH_PLACE_TREES_H
#include "launch/launcher.h"
#include "launch/request.h"

/* Whether such a mount comes with a tree from outside. */
bool places_have_tree(const struct mount_wish *wish);
/* What a place's first process has to know beside its target. */
const char *places_detail(const struct mount_wish *wish);
/* What the place shows of the host, as a descriptor with O_PATH: what was judged, and no link on the way. */
int places_open(const struct launcher *launcher, const struct mount_wish *wish, struct fault *fault);
/* The trees of all that have one, attached nowhere. */
int places_take_all(const struct launcher *launcher, const struct request *request, unsigned root_id,
                    int trees[MOUNTS_MAX], struct fault *fault);

#endif
