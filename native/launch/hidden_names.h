/*
 * What a directory of the host does not show: an empty file or an empty directory lies over each such name, put there where nobody else
 * looks, before the directory has a place in any sandbox. Nobody inside takes one off, for nobody there may unmount.
 */
#ifndef SQUASH_LAUNCH_HIDDEN_NAMES_H
#define SQUASH_LAUNCH_HIDDEN_NAMES_H
#include "launch/request.h"

/*
 * The tree of the wish, attached nowhere, with the covers of its hidden names; -1. A name that is missing by now, or a link, is refused: what
 * can't be covered would be seen. Makes a mount namespace of the caller's own, as an image's mount does.
 */
int hidden_names_cover(int tree, const struct mount_wish *wish, struct fault *fault);

#endif
