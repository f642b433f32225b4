/* The way to the host: vsock. */
#ifndef SQUASH_BOOT_HOST_SOCKET_H
#define SQUASH_BOOT_HOST_SOCKET_H

/* The listener of squash-init. */
int host_socket_listen(void);
/* Tells the host that the listener takes connections. Returns 0, or -1 with errno where there is no way to it. */
int host_socket_tell(void);

#endif
