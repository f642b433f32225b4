/* Runs the commands of a start one after the other, hears of their ends, and answers who asked. */
#ifndef SQUASH_VMM_COMMANDS_H
#define SQUASH_VMM_COMMANDS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct connection;

/* Opens what commands get as standard input. Returns 0 or -1 with errno. */
int commands_prepare(void);
/* The first frame `vmmStart`. */
void commands_request(struct connection *connection, uint8_t *payload, size_t length);
/* A child ended, a command or an orphan. */
void commands_child_ended(pid_t pid, int wait_status);
/* Looks for the socket that is awaited. Returns the ms until the next look, -1: none. */
int commands_turn(void);
/* Who asked is gone; the start goes on. */
void commands_lost_client(const struct connection *connection);
unsigned commands_running(void);
/* A command that was to stay has ended: so shall the sandbox. */
bool commands_are_over(void);

#endif
