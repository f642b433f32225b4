/* See migration.h. */
#include "migration.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fault.h"
#include "qemu.h"
#include "qmp.h"

enum { LOOK_US = 10000, LOOKS_MAX = 12000, PARTED_US = 1500000 };

static bool is_open, has_vsock_gone;

static void ignore(const char *fault) { (void)fault; }

/* QEMU writes and reads no memory that is in a file. */
static const char *open_control(pid_t process) {
  const char *fault = is_open ? NULL : qmp_open(QEMU_CONTROL, process);
  if (fault != NULL || is_open) return fault;
  is_open = true;
  return qmp_ask(
      "{\"execute\":\"migrate-set-capabilities\",\"arguments\":{\"capabilities\":[{\"capability\":\"x-ignore-shared\",\"state\":true}]}}");
}

/* Asks until the answer has the word, or has it no more. */
static const char *ask_until(const char *request, const char *word, bool is_wanted) {
  for (int looks = 0; looks < LOOKS_MAX; looks++) {
    const char *fault = qmp_ask(request);
    if (fault != NULL) return fault;
    if ((strstr(qmp_answer(), word) != NULL) == is_wanted) return NULL;
    if (strstr(qmp_answer(), "\"status\": \"failed\"") != NULL) return fault_of("QEMU: %s", qmp_answer());
    (void)usleep(LOOK_US);
  }
  return fault_of("QEMU has not come so far that %s is %s", word, is_wanted ? "there" : "gone");
}

/* The slot's button is pressed: the guest's kernel waits five seconds for a second press. What it says where it was pressed is no reason to wait less. */
static const char *unplug_vsock(void) {
  ignore(qmp_ask("{\"execute\":\"device_del\",\"arguments\":{\"id\":\"vsock0\"}}"));
  const char *fault = ask_until("{\"execute\":\"qom-list\",\"arguments\":{\"path\":\"/machine/peripheral\"}}", "\"vsock0\"", false);
  if (fault != NULL) return fault;
  /* For a second behind it Linux would take a new device in that slot for noise. */
  (void)usleep(PARTED_US);
  ignore(qmp_ask("{\"execute\":\"chardev-remove\",\"arguments\":{\"id\":\"vsock\"}}"));
  has_vsock_gone = true;
  return NULL;
}

/* The back end needs a moment between two of them. */
static const char *plug_vsock(void) {
  const char *fault = NULL;
  for (int looks = 0; looks < LOOKS_MAX; looks++) {
    fault = qmp_ask("{\"execute\":\"chardev-add\",\"arguments\":{\"id\":\"vsock\",\"backend\":{\"type\":\"socket\",\"data\":{\"server\":false,"
                    "\"addr\":{\"type\":\"unix\",\"data\":{\"path\":\"" QEMU_BACK_END "\"}}}}}}");
    if (fault == NULL) break;
    (void)usleep(LOOK_US);
  }
  if (fault == NULL) {
    fault = qmp_ask(
        "{\"execute\":\"device_add\",\"arguments\":{\"driver\":\"vhost-user-vsock-pci\",\"chardev\":\"vsock\",\"bus\":\"port0\",\"id\":\"vsock0\"}}");
  }
  if (fault != NULL) return fault;
  has_vsock_gone = false;
  /* The guest has taken it. */
  return ask_until("{\"execute\":\"x-query-virtio-status\",\"arguments\":{\"path\":\"/machine/peripheral/vsock0/virtio-backend\"}}",
                   "\"vhost-started\": true", true);
}

const char *migration_pause(const struct machine *machine) {
  const char *fault = open_control(qemu_process);
  if (fault == NULL && machine->vsock[0] != '\0' && !has_vsock_gone) fault = unplug_vsock();
  return fault != NULL ? fault : qmp_ask("{\"execute\":\"stop\"}");
}

const char *migration_resume(const struct machine *machine) {
  const char *fault = qmp_ask("{\"execute\":\"cont\"}");
  if (fault != NULL) return fault;
  (void)unlink(MIGRATION_STREAM);
  return machine->vsock[0] != '\0' && has_vsock_gone ? plug_vsock() : NULL;
}

const char *migration_save(void) {
  if (access(MIGRATION_STREAM, F_OK) == 0) return NULL;
  const char *fault = qmp_ask("{\"execute\":\"migrate\",\"arguments\":{\"uri\":\"file:" MIGRATION_STREAM "\"}}");
  if (fault == NULL) fault = ask_until("{\"execute\":\"query-migrate\"}", "\"status\": \"completed\"", true);
  if (fault != NULL) (void)unlink(MIGRATION_STREAM);
  return fault;
}

/* QEMU's end is the machine's only when there is one: before that it is a fault of what was loaded. */
const char *migration_load(const struct machine *machine) {
  has_vsock_gone = true;
  pid_t process = qemu_begin(machine, true);
  const char *fault = process < 0 ? "Cannot fork" : open_control(process);
  if (fault == NULL) fault = qmp_ask("{\"execute\":\"migrate-incoming\",\"arguments\":{\"uri\":\"file:" MIGRATION_STREAM "\"}}");
  if (fault == NULL) fault = ask_until("{\"execute\":\"query-status\"}", "\"inmigrate\"", false);
  if (fault != NULL) return fault;
  qemu_process = process;
  if (kill(process, 0) != 0) exit(1);
  return NULL;
}
