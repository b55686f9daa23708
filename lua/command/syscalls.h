/* The filter of system calls around a script that is not trusted. */
#ifndef LUA_SOMA_SYSCALLS_H
#define LUA_SOMA_SYSCALLS_H

#include <stdbool.h>
#include <stdint.h>

/* A build with a sanitizer: its shadow memory needs address space without end, and its library
 * other system calls, so that it has no filter. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SOMA_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SOMA_SANITIZED 1
#endif
#endif
#ifndef SOMA_SANITIZED
#define SOMA_SANITIZED 0
#endif

/* What the filter is made by, such as "libseccomp 2.5.4"; NULL in a build without one. Static. */
const char *soma_filter_name(void);
/* From here on this process reaches memory, its open files, clocks and its own end; what the C
 * library asks in passing fails with EPERM, and any other system call ends the process by SIGSYS.
 * 0, or an errno. */
int soma_filter_load(void);
/* For tests: writes the filter's BPF program for that processor (an AUDIT_ARCH_ value) to fd. 0, or
 * an errno. */
int soma_filter_export(uint32_t arch, int fd);

#endif
