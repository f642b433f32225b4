/*
 * A sandbox's network: `lo`, every address of the world on it, rules that bring TCP and DNS to the relay's
 * listeners, and these listeners. It is set up by the starter, as root of the sandbox's user namespace, before
 * the first process gives those rights up for good.
 *
 * What a newcomer would get wrong: nothing keeps anybody in here. The namespace has no way out; the rules only decide
 * what the one helpful neighbour, the relay, gets to hear. Connections are not rewritten but delivered as they are
 * (TPROXY), so an accepted socket's own address is where the program wanted to go, and the kernel tracks nothing.
 */
#ifndef SQUASH_LAUNCH_NETWORK_H
#define SQUASH_LAUNCH_NETWORK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/fault.h"

enum {
  /* Of all listeners. The last but one: nothing has it by custom, and ephemeral ports end at 60999. */
  NETWORK_PORT = 65533,
  NETWORK_DNS_PORT = 53,
};

/* What a program sees as its own address: one that is not loopback, or resolvers think that IPv4 is switched off. */
#define NETWORK_OWN_ADDRESS 0xc6120002U /* 198.18.0.2 */

/* A VMM's guest has a tap instead of `lo`: this device, and one address behind it. Of the same network are nameserver and gateway. */
#define NETWORK_TAP "tap0"
#define NETWORK_GUEST_ADDRESS 0xc6120003U /* 198.18.0.3 */

enum network_listener { LISTENER_TCP4, LISTENER_UDP4, LISTENER_TCP6, LISTENER_UDP6, LISTENERS_MAX };

struct network {
  int listeners[LISTENERS_MAX]; /* none: -1. All four, the first two (no IPv6 here), or none at all */
  unsigned listener_count;
  char warning[192]; /* why there is loopback only; "" where there is more */
};

/* For the calling process's network namespace. Returns -1 where not even `lo` comes up. */
int network_set_up(struct network *network);
/* Tries it in namespaces of their own. Returns whether sandboxes get a network here; else `why` says what is missing. */
bool network_probe(char *why, size_t size);
/* Brings TCP and DNS to the listeners and refuses the rest. Returns 0 or -1. */
int network_rules_set(bool has_ip6);
/*
 * Makes the tap through the node at `device`, for the sandbox's root to use without a right: who has it sends packets into this namespace as
 * a program of an ordinary sandbox does, from the guest's address alone.
 */
int network_tap_make(const char *device, struct fault *fault);
/* Lets in from the tap what the relay serves, TCP and DNS, from the guest's address, and nothing else. Returns 0 or -1. */
int network_rules_set_tap(void);

#endif
