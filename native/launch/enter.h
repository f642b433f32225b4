/* `squash-launch enter`: joins or makes the daemon's namespaces, then becomes the given command. */
#ifndef SQUASH_LAUNCH_ENTER_H
#define SQUASH_LAUNCH_ENTER_H

struct enter_options {
  const char *data;
  const char *run;
  const char *data_given; /* both as they were named, links and all */
  const char *run_given;
  const char *run_below; /* the same, relative to the data directory; NULL where it does not lie there */
  const char *app;
  const char *init; /* squash-init; by default the file of that name beside squash-launch */
  const char *filter; /* "node" where the command is the daemon: see host_filter.h */
  char **command;
};

/* Returns an exit code when the command could not be started. */
int enter_main(int argc, char **argv);

#endif
