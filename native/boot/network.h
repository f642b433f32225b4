/* The machine's network: loopback, and eth0 where the host tells its address. */
#ifndef SQUASH_BOOT_NETWORK_H
#define SQUASH_BOOT_NETWORK_H
#include "boot/settings.h"

void network_set_up(const struct settings *settings);

#endif
