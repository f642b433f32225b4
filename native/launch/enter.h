/* `squash-launch enter`: joins or makes the daemon's namespaces, then becomes the given command. */
#ifndef SQUASH_LAUNCH_ENTER_H
#define SQUASH_LAUNCH_ENTER_H
#include <sys/types.h>

struct enter_options {
  const char *data;
  const char *run;
  const char *data_given; /* both as they were named, links and all */
  const char *run_given;
  const char *run_below; /* the same, relative to the data directory; NULL where it does not lie there */
  const char *app;
  const char *init; /* squash-init; by default the file of that name beside squash-launch */
  const char *read;   /* one more file that the command reads, or NULL */
  const char *login; /* a file with logins to registries, which the daemon alone reads, or NULL */
  const char *vmm; /* a program for microVMs, which the daemon copies, or NULL */
  const char *filter; /* "node" where the command is the daemon: see host_filter.h */
  char **command;
  pid_t keeper; /* our parent, with which the command ends; 0: none */
};

/* Reads the words behind the verb and finds the directories. Returns 0, or an exit code after it said why not. */
int enter_read(int argc, char **argv, struct enter_options *options);
/* Returns an exit code when the command could not be started. */
int enter_become(const struct enter_options *options);
/* As root, and nothing but this: another privileged helper for a living launcher that has none. Returns an exit code. */
int enter_mend(const struct enter_options *options);
/* The first two. */
int enter_main(int argc, char **argv);

#endif
