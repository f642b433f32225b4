/* Becoming another sandbox: see renew.h. */
#include "init/renew.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptor.h"
#include "common/hosts.h"
#include "common/renewal.h"
#include "init/connection.h"
#include "init/exec.h"
#include "init/machine.h"

enum { HOSTNAME_BYTES_MAX = 64, MACHINE_ID_BYTES = 16 };

static int urandom = -1;

/* Later somebody may have put another thing in its place. */
int renew_prepare(void) {
  if (!machine_is()) return 0;
  urandom = open("/dev/urandom", O_RDWR | O_CLOEXEC);
  return urandom < 0 ? -1 : 0;
}

static int write_hosts(const char *name) {
  char hosts[HOSTNAME_BYTES_MAX + 128];
  int length = snprintf(hosts, sizeof hosts, HOSTS_TEXT, name);
  bool is_written = pwrite(MACHINE_HOSTS, hosts, (size_t)length, 0) == length && ftruncate(MACHINE_HOSTS, length) == 0;
  return is_written ? 0 : -1;
}

/* Of a system that has one; a file of any other size is none, and what is no plain file is left. */
static int renew_machine_id(void) {
  uint8_t bytes[MACHINE_ID_BYTES];
  char text[2 * MACHINE_ID_BYTES + 2];
  struct stat status;
  cleanup_fd fd = open("/etc/machine-id", O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size != sizeof text - 1) return 0;
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) return -1;
  for (size_t i = 0; i < sizeof bytes; i++) (void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
  text[sizeof text - 2] = '\n';
  return pwrite(fd, text, sizeof text - 1, 0) == sizeof text - 1 ? 0 : -1;
}

static const char *renew(const struct renewal *renewal, const char *name) {
  const char *wrong = NULL;
  if (machine_capabilities_use(true) != 0) wrong = "capabilities";
  else if (renewal_random(renewal, urandom) != 0) wrong = "random numbers";
  else if (renewal_clock(renewal) != 0) wrong = "the clock";
  else if (sethostname(name, strlen(name)) != 0 || write_hosts(name) != 0) wrong = "the host name";
  else if (renew_machine_id() != 0) wrong = "the machine's id";
  int number = errno;
  if (machine_capabilities_use(false) != 0 && wrong == NULL) return "capabilities";
  errno = number;
  return wrong;
}

void renew_request(struct connection *connection, uint8_t *payload, size_t length) {
  struct renewal renewal = {.seed = NULL};
  char name[HOSTNAME_BYTES_MAX + 1] = "";
  bool is_fine = renewal_parse(payload, length, &renewal) && renewal.settings_length > 0 && renewal.settings_length < sizeof name &&
                 memchr(renewal.settings, 0, renewal.settings_length) == NULL;
  if (!is_fine) {
    connection_refuse(connection, "bad_request", EINVAL, "that is not who it is");
    return;
  }
  memcpy(name, renewal.settings, renewal.settings_length);
  const char *wrong = renew(&renewal, name);
  if (wrong != NULL) {
    connection_refuse(connection, "file_failed", errno, wrong);
    return;
  }
  exec_abandon_all();
  struct frame_writer writer = frame_writer_on(connection->out, sizeof connection->out);
  frame_begin(&writer, FRAME_OK);
  connection_answer(connection, &writer);
}
