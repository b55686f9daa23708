/* The list of system calls, by the names that libseccomp knows on every processor. */
#include "syscalls.h"

#include <errno.h>
#include <stddef.h>

#if !defined(SOMA_SECCOMP) || SOMA_SANITIZED

/* The sandbox says then that there is no filter, and runs without one only if told to. */
const char *soma_filter_name(void) { return NULL; }
int soma_filter_load(void) { return ENOSYS; }
int soma_filter_export(uint32_t arch, int fd) {
  (void)arch;
  (void)fd;
  return ENOSYS;
}

#else

#include <seccomp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* What takes the name of a file or makes a descriptor is not here. */
static const char allowed[] =
    " brk munmap mremap madvise"                                       /* memory */
    " read readv pread64 write writev pwrite64 lseek _llseek"          /* open files */
    " ftruncate ftruncate64 close"                                     /* likewise */
    " clock_gettime clock_gettime64 clock_getres gettimeofday time"    /* clocks */
    " futex futex_time64 sched_yield sched_getaffinity getrandom"      /* locks */
    " getpid gettid rt_sigprocmask rt_sigreturn sigreturn sigaltstack" /* signals */
    " restart_syscall exit exit_group";

/* What a library may ask in passing, and does without: how large a file's buffer should be, the
 * time zone, a second thread. */
static const char refused[] = " open openat access faccessat faccessat2 readlink readlinkat"
                              " stat stat64 lstat lstat64 newfstatat fstatat64 statx fstat fstat64"
                              " ioctl fcntl fcntl64 uname sysinfo getrusage"
                              " clone clone3 rt_sigaction rseq prlimit64 getrlimit ugetrlimit";

/* For --version and for the sandbox's own help. */
const char *soma_filter_name(void) {
  static char name[48];
  const struct scmp_version *v = seccomp_version();
  snprintf(name, sizeof name, "libseccomp %u.%u.%u", v->major, v->minor, v->micro);
  return name;
}

/* One rule for each name of the list; one that this libseccomp does not know is left out, and so
 * ends the process. */
static int add(scmp_filter_ctx c, uint32_t action, const char *names) {
  /* Names are separated by blanks. */
  char name[32];
  int n = 0, bad = 0;
  for (; bad == 0 && sscanf(names, " %31s%n", name, &n) == 1; names += n) {
    int number = seccomp_syscall_resolve_name(name);
    /* Whatever else there is ends the process. */
    if (number != __NR_SCMP_ERROR) bad = seccomp_rule_add(c, action, number, 0);
  }
  return bad;
}

/* Memory that can be executed is refused, and a signal to another process. */
static int add_conditions(scmp_filter_ctx c) {
  /* mmap and mprotect ask for memory; the third argument says what may be done with it. */
  static const char *const maps[] = {"mmap", "mmap2", "mprotect"};
  int bad = 0;
  for (size_t i = 0; i < sizeof maps / sizeof *maps && bad == 0; i++) {
    /* A processor lacks one of them: only what exists can be called. */
    int number = seccomp_syscall_resolve_name(maps[i]);
    if (number == __NR_SCMP_ERROR) continue;
    bad = seccomp_rule_add(c, SCMP_ACT_ALLOW, number, 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
  }
  if (bad != 0) return bad;
  /* A process that aborts sends itself a signal. */
  int tgkill = seccomp_syscall_resolve_name("tgkill"); /* abort() */
  return seccomp_rule_add(c, SCMP_ACT_ALLOW, tgkill, 1,
                          SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid(), 0));
}

/* Calls in another mode of the processor would have other numbers. */
static int fill(scmp_filter_ctx c) {
  int bad = seccomp_attr_set(c, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  if (bad == 0) bad = add(c, SCMP_ACT_ALLOW, allowed);
  if (bad == 0) bad = add(c, SCMP_ACT_ERRNO(EPERM), refused);
  return bad != 0 ? bad : add_conditions(c);
}

/* Errors are positive here, as the caller compares with errno. */
int soma_filter_load(void) {
  scmp_filter_ctx c = seccomp_init(SCMP_ACT_KILL_PROCESS);
  if (c == NULL) return ENOMEM;
  int bad = fill(c);
  if (bad == 0) bad = seccomp_load(c);
  /* The kernel has its copy. */
  seccomp_release(c);
  return -bad;
}

/* The names of AUDIT_ARCH_ values are libseccomp's SCMP_ARCH_ values. */
int soma_filter_export(uint32_t arch, int fd) {
  scmp_filter_ctx c = seccomp_init(SCMP_ACT_KILL_PROCESS);
  if (c == NULL) return ENOMEM;
  int bad = 0;
  /* A filter for another processor has no rules of this one. */
  if (arch != seccomp_arch_native()) {
    bad = seccomp_arch_add(c, arch);
    if (bad == 0) bad = seccomp_arch_remove(c, SCMP_ARCH_NATIVE);
  }
  if (bad == 0) bad = fill(c);
  if (bad == 0) bad = seccomp_export_bpf(c, fd);
  seccomp_release(c);
  return -bad;
}

#endif
