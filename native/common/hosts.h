/* /etc/hosts of a microVM's guest: the text of host/src/drivers/namespace/etc-files.ts, for its host name. */
#ifndef SQUASH_HOSTS_H
#define SQUASH_HOSTS_H

#define HOSTS_TEXT "127.0.0.1\tlocalhost\n127.0.1.1\t%s\n::1\tlocalhost ip6-localhost ip6-loopback\n"

#endif
