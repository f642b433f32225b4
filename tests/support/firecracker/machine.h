/* The machine that requests describe, and a real one of QEMU's in its place: the same kernel, disks, tap and vsock, emulated. */
#ifndef MACHINE_H
#define MACHINE_H
#include "requests.h"

#ifndef VERSION
#define VERSION "1.16.1"
#endif

enum { DRIVES_MAX = 17 };

/* A snapshot keeps it as it is. */
struct machine {
  enum { NOT_STARTED, RUNNING, PAUSED, LOST } state;
  bool is_configured; /* Something of what it boots with was asked for. */
  long long vcpus, mib;
  char kernel[256], initrd[256], words[2304];
  struct {
    char id[64], path[256];
    bool is_read_only, is_root;
  } drives[DRIVES_MAX];
  size_t drive_count;
  char interface[64], tap[64], mac[32];
  char vsock[108];
  long long cid;
  bool has_entropy, has_balloon, reports_free_pages;
};

/*
 * Does what the request asks. Files are opened, the tap is attached and the socket is bound now. Returns NULL, or the fault. One that is lost
 * then, because what it was to be loaded from is broken, is to end.
 */
const char *machine_apply(struct machine *machine, const struct asked *asked);

#endif
