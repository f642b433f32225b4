/*
 * Bringing home what a box has written over a directory of the host: names of its upper, one after the other, as the caller has
 * chosen them.
 *
 * The upper is the box's word: nothing in it is followed, only directories, regular files and links are taken, and none of a file's
 * special bits. The box may run meanwhile. The host's directory is the user's: names are resolved beneath it and without links, so a
 * link on the way refuses the name.
 *
 * A file is made whole beside the upper and comes to its name by one rename: whoever is killed has either the old file or the new
 * one and nothing besides. Where the upper lies on another file system the last step is made in the host's directory, and what a
 * killed one has left there is recorded in the upper and goes with the next call.
 */
#ifndef SQUASH_LAUNCH_APPLY_H
#define SQUASH_LAUNCH_APPLY_H
#include "common/frame.h"
#include "common/fault.h"
#include "launch/launcher.h"
#include "launch/request.h"

/*
 * The request's `paths` of its first mount, a place of the box. Each is answered with an entry: its path and what became of it as a
 * `change`: applied, same, conflict (the host's was changed later than `changed_us`), refused with a reason.
 */
int apply_send(const struct launcher *launcher, const struct request *request, struct fault *fault);

#endif
