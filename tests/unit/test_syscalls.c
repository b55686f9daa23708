/* The sandbox's filter of system calls: what it does to a process, and its list on processors that
 * this one is not. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "../../lua/command/syscalls.h"

/* ---- The list, as the kernel would read it -------------------------------------------------- */

enum { MOST = 4096 };

typedef struct filter {
  struct sock_filter line[MOST];
  size_t n;
} filter;

static void export_filter(uint32_t arch, filter *f) {
  FILE *file = tmpfile();
  assert_non_null(file);
  assert_int_equal(soma_filter_export(arch, fileno(file)), 0);
  rewind(file);
  f->n = fread(f->line, sizeof *f->line, MOST, file);
  assert_true(f->n > 10 && f->n < MOST);
  fclose(file);
}

static bool holds(const struct sock_filter *l, uint32_t a) {
  switch (BPF_OP(l->code)) {
  case BPF_JEQ: return a == l->k;
  case BPF_JGT: return a > l->k;
  case BPF_JGE: return a >= l->k;
  case BPF_JSET: return (a & l->k) != 0;
  default: fail_msg("a jump of code %#x", l->code); return false;
  }
}

/* What the filter answers; the kinds of lines that libseccomp makes. */
static uint32_t answer(const filter *f, const struct seccomp_data *d) {
  uint32_t a = 0;
  for (size_t i = 0; i < f->n; i++) {
    const struct sock_filter *l = &f->line[i];
    if (l->code == (BPF_LD | BPF_W | BPF_ABS))
      memcpy(&a, (const char *)d + l->k, sizeof a);
    else if (l->code == (BPF_ALU | BPF_AND | BPF_K))
      a &= l->k;
    else if (l->code == (BPF_JMP | BPF_JA))
      i += l->k;
    else if (BPF_CLASS(l->code) == BPF_JMP)
      i += holds(l, a) ? l->jt : l->jf;
    else if (l->code == (BPF_RET | BPF_K))
      return l->k;
    else
      fail_msg("a line of code %#x", l->code);
  }
  fail_msg("the filter has no end");
  return 0;
}

enum { ALLOW = 0, EPERMED = 1, KILLED = 2 };

static int kind(const filter *f, uint32_t arch, int nr, uint64_t third) {
  const struct seccomp_data d = {.nr = nr, .arch = arch, .args = {0, 0, third}};
  uint32_t a = answer(f, &d);
  if (a == SECCOMP_RET_ALLOW) return ALLOW;
  if (a == (SECCOMP_RET_ERRNO | EPERM)) return EPERMED;
  assert_int_equal(a, SECCOMP_RET_KILL_PROCESS);
  return KILLED;
}

typedef struct expected {
  const char *name;
  int x86_64, aarch64; /* numbers; -1: that processor has no such call */
  int kind;
} expected;

/* Numbers from the kernel's own tables of the two processors. */
static const expected calls[] = {
    {"read", 0, 63, ALLOW},
    {"write", 1, 64, ALLOW},
    {"lseek", 8, 62, ALLOW},
    {"ftruncate", 77, 46, ALLOW},
    {"brk", 12, 214, ALLOW},
    {"munmap", 11, 215, ALLOW},
    {"mremap", 25, 216, ALLOW},
    {"madvise", 28, 233, ALLOW},
    {"futex", 202, 98, ALLOW},
    {"clock_gettime", 228, 113, ALLOW},
    {"exit_group", 231, 94, ALLOW},
    {"rt_sigreturn", 15, 139, ALLOW},
    {"open", 2, -1, EPERMED},
    {"openat", 257, 56, EPERMED},
    {"stat", 4, -1, EPERMED},
    {"newfstatat", 262, 79, EPERMED},
    {"clone", 56, 220, EPERMED},
    {"clone3", 435, 435, EPERMED},
    {"fork", 57, -1, KILLED},
    {"vfork", 58, -1, KILLED},
    {"execve", 59, 221, KILLED},
    {"execveat", 322, 281, KILLED},
    {"socket", 41, 198, KILLED},
    {"connect", 42, 203, KILLED},
    {"sendto", 44, 206, KILLED},
    {"kill", 62, 129, KILLED},
    {"ptrace", 101, 117, KILLED},
    {"unlink", 87, -1, KILLED},
    {"unlinkat", 263, 35, KILLED},
    {"rename", 82, -1, KILLED},
    {"renameat2", 316, 276, KILLED},
    {"mkdirat", 258, 34, KILLED},
    {"memfd_create", 319, 279, KILLED},
    {"io_uring_setup", 425, 425, KILLED},
    {"dup", 32, 23, KILLED},
    {"pipe2", 293, 59, KILLED},
    {"setrlimit", 160, 164, KILLED},
    {"prctl", 157, 167, KILLED},
    {"setitimer", 38, 103, KILLED},
    {"rt_sigaction", 13, 134, EPERMED},
    {"process_vm_writev", 311, 271, KILLED},
    {"pidfd_open", 434, 434, KILLED},
};

static void check_list(uint32_t arch, bool arm) {
  static filter f;
  export_filter(arch, &f);
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    int nr = arm ? calls[i].aarch64 : calls[i].x86_64;
    if (nr >= 0 && kind(&f, arch, nr, 0) != calls[i].kind)
      fail_msg("%s is answered by %d", calls[i].name, kind(&f, arch, nr, 0));
  }
  int mmap_nr = arm ? 222 : 9, mprotect_nr = arm ? 226 : 10;
  assert_int_equal(kind(&f, arch, mmap_nr, PROT_READ | PROT_WRITE), ALLOW);
  assert_int_equal(kind(&f, arch, mmap_nr, PROT_READ | PROT_EXEC), KILLED);
  assert_int_equal(kind(&f, arch, mprotect_nr, PROT_EXEC), KILLED);
  uint32_t other = arm ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_I386;
  assert_int_equal(kind(&f, other, 0, 0), KILLED);
}

static void test_list_x86_64(void **state) {
  (void)state;
  check_list(AUDIT_ARCH_X86_64, false);
}
static void test_list_aarch64(void **state) {
  (void)state;
  check_list(AUDIT_ARCH_AARCH64, true);
}

/* ---- A process with it ---------------------------------------------------------------------- */

typedef int attempt(void);

/* What came of it in a process with the filter: its exit status, or 1000 + the signal. */
static int try_filtered(attempt *f) {
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    if (soma_filter_load() != 0) _exit(99);
    _exit(f());
  }
  int status = 0;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int work(void) {
  char *p = malloc(1 << 24), *q = p != NULL ? realloc(p, 1 << 26) : NULL;
  if (q == NULL) return 1;
  memset(q, 1, 1 << 26);
  free(q);
  struct timespec t;
  return write(STDOUT_FILENO, "", 0) == 0 && syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t) == 0
             ? 0
             : 1;
}
static int open_file(void) { return open("/dev/null", O_RDONLY) < 0 && errno == EPERM ? 0 : 1; }
static int open_socket(void) { return socket(AF_INET, SOCK_STREAM, 0) < 0 ? 1 : 2; }
static int start_process(void) { return fork() < 0 && errno == EPERM ? 0 : 1; }
static int execute(void) {
  execl("/bin/true", "true", (char *)NULL);
  return 1;
}
static int send_signal(void) { return kill(getppid(), 0) == 0 ? 2 : 1; }
static int end_by_abort(void) {
  abort();
  return 1;
}
static int make_code(void) {
  return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED
             ? 2
             : 1;
}
static int raise_limit(void) { return syscall(SYS_setrlimit, 0, NULL) == 0 ? 2 : 1; }

static void test_process(void **state) {
  (void)state;
  assert_int_equal(try_filtered(work), 0);
  assert_int_equal(try_filtered(open_file), 0);
  assert_int_equal(try_filtered(start_process), 0);
  assert_int_equal(try_filtered(open_socket), 1000 + SIGSYS);
  assert_int_equal(try_filtered(execute), 1000 + SIGSYS);
  assert_int_equal(try_filtered(send_signal), 1000 + SIGSYS);
  assert_int_equal(try_filtered(make_code), 1000 + SIGSYS);
  assert_int_equal(try_filtered(raise_limit), 1000 + SIGSYS);
  assert_int_equal(try_filtered(end_by_abort), 1000 + SIGABRT);
}

static void test_name(void **state) {
  (void)state;
  assert_int_equal(strncmp(soma_filter_name(), "libseccomp ", 11), 0);
}

static void test_absent(void **state) {
  (void)state;
  assert_null(soma_filter_name());
  assert_int_equal(soma_filter_load(), ENOSYS);
  assert_int_equal(soma_filter_export(AUDIT_ARCH_X86_64, 1), ENOSYS);
}

int main(void) {
  const struct CMUnitTest there[] = {
      cmocka_unit_test(test_name),
      cmocka_unit_test(test_list_x86_64),
      cmocka_unit_test(test_list_aarch64),
      cmocka_unit_test(test_process),
  };
  const struct CMUnitTest absent[] = {cmocka_unit_test(test_absent)};
  if (soma_filter_name() == NULL) return cmocka_run_group_tests(absent, NULL, NULL);
  return cmocka_run_group_tests(there, NULL, NULL);
}
