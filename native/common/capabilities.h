/*
 * What root may in a sandbox: what container engines leave by default, without the three that only reach outwards.
 * CAP_NET_RAW would allow packets of any form on interfaces that come later; CAP_MKNOD is without effect in a user namespace,
 * and in a microVM opens its drives; CAP_AUDIT_WRITE writes into the host's audit log.
 */
#ifndef SQUASH_CAPABILITIES_H
#define SQUASH_CAPABILITIES_H

#include <stddef.h>

enum { SANDBOX_CAPABILITIES = 11 };
extern const unsigned sandbox_capabilities[SANDBOX_CAPABILITIES];

/*
 * By these a microVM's guest that goes on from another's memory is made a machine of its own (init/renew.h). Its PID 1 alone has them,
 * permitted and not in effect; no command may get them, nor look into a process that has them.
 */
enum { MACHINE_CAPABILITIES = 2 };
extern const unsigned machine_capabilities[MACHINE_CAPABILITIES];

/* Of the permitted and the effective set nothing else stays. An execve gives root the rest back, but where no_new_privs is set. */
int capabilities_drop(void);
/* The same, and `more` stay besides. */
int capabilities_keep(const unsigned *more, size_t count);

#endif
