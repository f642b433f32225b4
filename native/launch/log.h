/* The launcher's log: lines in `launch.log` of the run directory, at most two files of 1 MiB. */
#ifndef SQUASH_LAUNCH_LOG_H
#define SQUASH_LAUNCH_LOG_H

/* Puts stdout and stderr there and stdin on /dev/null. */
int log_open(int run_directory);
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
