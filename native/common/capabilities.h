/*
 * What root may in a sandbox: what container engines leave by default, without the three that only reach outwards.
 * CAP_NET_RAW would allow packets of any form on interfaces that come later; CAP_MKNOD is without effect in a user namespace,
 * and in a microVM opens its drives; CAP_AUDIT_WRITE writes into the host's audit log.
 */
#ifndef SQUASH_CAPABILITIES_H
#define SQUASH_CAPABILITIES_H

enum { SANDBOX_CAPABILITIES = 11 };
extern const unsigned sandbox_capabilities[SANDBOX_CAPABILITIES];

/* Of the permitted and the effective set nothing else stays. An execve gives root the rest back, but where no_new_privs is set. */
int capabilities_drop(void);

#endif
