/* What squash-launch and its relay tell each other. */
#ifndef SQUASH_RELAY_PLAN_H
#define SQUASH_RELAY_PLAN_H
#include <stdbool.h>
#include <stdint.h>

/* In the order of launch/network.h. */
enum { RELAY_LISTENERS_MAX = 4 };

enum {
  /* At once, of one sandbox; two descriptors each. Programs that crawl hold thousands. */
  RELAY_CONNECTIONS_MAX = 16384,
  /* A relay that has had nothing to do for so long ends. */
  RELAY_IDLE_MS = 60000,
  /* How long a connection waits for an egress process that is away: a restart of it goes unnoticed. */
  RELAY_HOLD_MS = 5000,
};

struct relay_plan {
  int launcher_fd; /* SOCK_SEQPACKET; its end ends the relay */
  int listeners[RELAY_LISTENERS_MAX]; /* TCP and UDP of IPv4, TCP and UDP of IPv6; -1 where there is none */
  /* Numbers of connections begin behind it. Relays of one sandbox count on from different ones, so that what was
     dialled for a connection of the last relay can't reach one of the next. */
  uint64_t connection_base;
  unsigned connections_max;
  bool is_last; /* full, it resets what comes; else the launcher hears of it and starts another relay */
  int idle_ms;
  int hold_ms;
};

/* From the launcher, each with one descriptor: a connection to the egress process on which `relayHello` is written
   already, or what a connection's bytes are to be exchanged with. */
enum relay_word { RELAY_CONTROL = 1, RELAY_UPSTREAM, /* the other way, without one: */ RELAY_NEEDS_CONTROL, RELAY_FULL };
struct relay_message {
  uint32_t word;
  uint32_t reserved;
  uint64_t connection; /* of RELAY_UPSTREAM */
};

struct relay_identity {
  bool keeps_id;    /* single-id mode: there is no other */
  unsigned id;      /* else: uid and gid to become */
  int network_fd;   /* the sandbox's network namespace; closed after it was entered. -1: stay */
};

#endif
