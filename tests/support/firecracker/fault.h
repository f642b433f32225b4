/* What a request is refused with. */
#ifndef FAULT_H
#define FAULT_H

/* Returns the text, which stays until the next one. It may be of this one. */
__attribute__((format(printf, 1, 2))) const char *fault_of(const char *format, ...);
/* The same, with what errno says behind it, as Rust writes it. */
const char *fault_of_errno(const char *what);

#endif
