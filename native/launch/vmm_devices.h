/*
 * Devices of the host in the /dev of a VMM's sandbox, and the tap that one of them is for.
 *
 * Where the privileged helper is, it makes a node of the sandbox's own, whoever may open the host's. Without it the host's node is
 * attached, and is good for who may open it there: mostly everybody `tun`, and a group `kvm`.
 */
#ifndef SQUASH_LAUNCH_VMM_DEVICES_H
#define SQUASH_LAUNCH_VMM_DEVICES_H
#include "common/device_tree.h"
#include "common/fault.h"
#include "launch/launcher.h"
#include "launch/request.h"

/* With the launcher's rights: a mount for each device of the request that is nowhere yet. */
int vmm_devices_gather(const struct launcher *launcher, const struct request *request, unsigned root_id, int trees[VMM_DEVICES],
                       struct fault *fault);
/* As the sandbox's root, into its /dev at `path`, which is read-only again behind it. With `tun` the tap is there, too. */
int vmm_devices_put(const char *path, int trees[VMM_DEVICES], struct fault *fault);

#endif
