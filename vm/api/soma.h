/* libsoma: emulated AWS NeuronCores.
 *
 * A machine holds one logical core's memories and runs programs on it. A program is assembled
 * from text or loaded from a .sbc file; its input tensors are bound to host data; a run executes
 * it in simulated time; its output tensors are fetched. See vm/api/README.md for a worked example.
 *
 * Conventions: every call that can fail returns a soma_status and leaves a message in the handle
 * (soma_error). Whoever creates a handle frees it; freeing NULL does nothing. Handles are
 * independent of one another: different machines may be used from different threads at once, one
 * machine from one thread at a time. The library never prints, exits or aborts. Its only globals
 * are the threads that the machines of a process share: they end with the last machine, so that the
 * library may then be unloaded.
 * A handle, name or pointer that is NULL where one is needed gives SOMA_ARG, and the message says
 * which. Sizes are in bytes, simulated time in femtoseconds, shapes outermost dimension first. */
#ifndef SOMA_H
#define SOMA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SOMA_VERSION "0.1.0"
/* The version of the linked library; SOMA_VERSION is that of the header. Static. */
const char *soma_version(void);

typedef enum soma_status {
  SOMA_OK,
  SOMA_NOMEM,    /* out of memory */
  SOMA_ARG,      /* bad argument */
  SOMA_IO,       /* cannot read or write a file */
  SOMA_SYNTAX,   /* the source text has errors: see the diagnostics */
  SOMA_FORMAT,   /* not a valid program file */
  SOMA_ILLEGAL,  /* the program breaks a rule of the machine */
  SOMA_UNBUILT,  /* known to the ISA, but not built in this version */
  SOMA_FAULT,    /* the simulated program faulted: see soma_run_fault */
  SOMA_DEADLOCK, /* no engine can move: see soma_run_fault */
  SOMA_LIMIT,    /* a limit of the options was reached */
  SOMA_STOPPED,  /* soma_machine_interrupt was called */
  SOMA_BUSY,     /* the machine has a run that has not ended, or is in a callback of one */
  SOMA_CHECK     /* the run ended, but a check found something: see soma_run_finding */
} soma_status;
/* A short English text of a status. Static. */
const char *soma_status_text(soma_status s);

/* Element types, as in the machine's public reference. */
typedef enum soma_dtype {
  SOMA_UINT8 = 1,
  SOMA_INT8,
  SOMA_UINT16,
  SOMA_INT16,
  SOMA_UINT32,
  SOMA_INT32,
  SOMA_UINT64,
  SOMA_INT64,
  SOMA_FLOAT8_E3M4,
  SOMA_FLOAT8_E4M3,
  SOMA_FLOAT8_E4M3FN,
  SOMA_FLOAT8_E5M2,
  SOMA_FLOAT8_E8M0FNU,
  SOMA_FLOAT16,
  SOMA_BFLOAT16,
  SOMA_TFLOAT32,
  SOMA_FLOAT32,
  SOMA_FLOAT8_E5M2_X4,
  SOMA_FLOAT8_E4M3FN_X4,
  SOMA_FLOAT4_E2M1FN_X4,
  SOMA_BOOL
} soma_dtype;
/* "float32" and so on; NULL for a number that is not a type. Static. */
const char *soma_dtype_name(soma_dtype t);
/* Bytes of an element, 0 for a number that is not a type. */
size_t soma_dtype_size(soma_dtype t);

typedef enum soma_engine {
  SOMA_TENSOR,
  SOMA_VECTOR,
  SOMA_SCALAR,
  SOMA_GPSIMD,
  SOMA_SYNC,
  SOMA_ENGINES
} soma_engine;
const char *soma_engine_name(soma_engine e); /* from SOMA_ENGINES on: cc0, cc1, cc2; then NULL */

typedef uint64_t soma_time; /* femtoseconds of simulated time */

/* An allocator, as in Lua: fn(ud, NULL, 0, n) allocates, fn(ud, p, old, 0) frees, else it resizes;
 * NULL means it cannot. */
typedef void *(*soma_alloc_fn)(void *ud, void *p, size_t old, size_t n);

/* One simulated event, for soma_options.event. Strings live as long as the program. */
typedef enum soma_event_kind {
  SOMA_EV_INSN = 1, /* an instruction's data path: start .. end */
  SOMA_EV_DMA,      /* one ring's share of a transfer: start .. end; ring, bytes */
  SOMA_EV_SEM,      /* a semaphore's new value, at start: id, value */
  SOMA_EV_NOTIFY,   /* a notify instruction: id */
  SOMA_EV_WAIT,     /* an engine waited on a semaphore: start .. end; id */
  SOMA_EV_TABLE,    /* scalar loaded the table of an activate's function before it: start .. end */
  SOMA_EV_TRIGGER, /* an engine started a transfer: start .. end, until the descriptors are made (in
                     a static queue: written); id: the queue; bytes: of the whole transfer; value:
                     the semaphore that each of its rings adds 1 to, + 256 if it is the other
                     core's, UINT32_MAX: none */
  SOMA_EV_MEET /* an engine waited at a sendrecv for the other core's: start .. end; id: the pipe;
                  part, value: engine and pc of the other core's */
} soma_event_kind;
/* Events are reported in the order of their ends, but a trigger when it starts. When the later core
 * reaches its sendrecv, the two meetings are reported, that core's first, and then the triggers. */
typedef struct soma_event {
  uint32_t kind, engine; /* engine: soma_engine, or for SOMA_EV_DMA the DMA engine, 0-15 */
  uint32_t pc, id;       /* id: semaphore, ring's queue, or the marker */
  soma_time start, end;
  uint64_t bytes;
  uint32_t value, line;
  const char *name; /* mnemonic, semaphore or queue name; may be NULL */
  const char *file;
  /* The core where it happened, and the core whose instruction caused it. They differ when a core
   * updates a semaphore of the other one. */
  uint32_t core, by_core;
  /* SOMA_EV_TRIGGER and SOMA_EV_DMA: the number of the transfer in its queue. Numbers count up from
   * any value, and the shares of a transfer have that of its trigger. SOMA_EV_SEM: if a ring of a
   * transfer writes the semaphore, 1 + 16 * queue + ring. SOMA_EV_MEET: see there. Else 0. */
  uint32_t part;
} soma_event;

/* For max_instructions a dma_trigger counts once for each transfer that it starts. */
typedef struct soma_options {
  size_t size; /* sizeof(soma_options), so that older callers keep working */
  /* "trn1" "inf2" "trn2" "trn3", or a hypothetical machine: "trn2, sbuf_kib=384, DMA_R_IN=40000",
   * by isa/README.md, or the text of a file with these; NULL: the program's own, trn2 first. */
  const char *target;
  uint64_t max_instructions; /* 0: no limit; the same for each limit below */
  soma_time max_time;
  double max_seconds;     /* of the host */
  uint64_t max_hbm_bytes; /* 0: the target's */
  int saturate;           /* nonzero: overflow of float8_e4m3fn gives 448, not NaN */
  const char *simd;       /* highest SIMD level used: "plain" "avx2" "avx512"; NULL: the best */
  soma_alloc_fn alloc;    /* NULL: malloc */
  void *alloc_ud;
  /* Callbacks come from soma_run_until. They may read the run and its machine and interrupt it;
   * calls that would change them give SOMA_BUSY there, and frees do nothing. */
  void (*event)(void *ud, const soma_event *e); /* NULL: none */
  void *event_ud;
  void (*print)(void *ud, int to_stderr, const char *text,
                size_t n); /* device_print; core 1's begins with "core 1: "; NULL: dropped */
  void *print_ud;
  /* Called about every 50 ms of host time during a run; nonzero stops it (SOMA_STOPPED). */
  int (*progress)(void *ud, uint64_t instructions, soma_time t);
  void *progress_ud;
  uint64_t rounding_seed; /* for round=stochastic: the same seed gives the same results */
  /* Constants of the clock that differ from the table, as soma_costs_set takes them; NULL: none. A
   * bad text makes soma_machine_new give SOMA_ARG. */
  const char *costs;
  /* Nonzero: a run has the same simulated time but computes nothing: data paths and transfers do
   * not change memory, and inputs need not be bound. For timing large problems; neither control
   * flow nor indices may depend on data. */
  int timing_only;
  int causes; /* nonzero: keep what soma_critical_path needs, 40 bytes per instruction and share */
  unsigned checks;   /* 1 << soma_check of those to make */
  uint64_t schedule; /* nonzero: the seed of another legal timing, see soma_check;
                        SOMA_SCHEDULE_ALL: keep what soma_run_schedules needs */
  /* Threads of the host that may work on a run, including the caller's, at most 256; 0: as many as
   * the process has cores, which is also the most that are used. Only host time depends on it. */
  unsigned threads;
  /* Seconds on the host's processors that all threads of the process may use while the run runs. On
   * a busy host this is less than max_seconds, on several threads it may be more. */
  double max_cpu_seconds;
  /* Where soma_machine_new writes why it failed, ended by a 0 and cut to error_size bytes; "" when
   * it did not. NULL: nowhere. */
  char *error;
  size_t error_size;
  int no_twins; /* nonzero: twins are races too, see soma_check */
} soma_options;
#define SOMA_SCHEDULE_ALL UINT64_MAX
#define SOMA_OPTIONS_INIT                                                                         \
  {                                                                                               \
    sizeof(soma_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
        0, 0                                                                                      \
  }

typedef struct soma_machine soma_machine;
typedef struct soma_program soma_program;
typedef struct soma_run soma_run;
typedef struct soma_diagnostics soma_diagnostics;

/* ---- Machines ----------------------------------------------------------------------------- */

/* Makes a machine of one core. options may be NULL. On failure *m is NULL, and soma_options.error
 * has the option, its value and the rule. */
soma_status soma_machine_new(const soma_options *options, soma_machine **m);
/* Frees the machine. Programs and runs may outlive it; a run that has not ended ends with
 * SOMA_STOPPED. */
void soma_machine_free(soma_machine *m);
/* Sets SBUF and PSUM, which keep their bytes between runs, to zero. SOMA_BUSY while a run of m has
 * not ended or been freed. */
soma_status soma_machine_clear(soma_machine *m);
/* The message of the last call on m that failed; "" if no call failed. Valid until the next call.
 */
const char *soma_error(const soma_machine *m);
const char *soma_target(const soma_machine *m);
typedef struct soma_target_info {
  const char *name;                /* "trn2"; static, or of a hypothetical machine the machine's */
  uint32_t generation;             /* 2 of trn1 and inf2, 3, 4 */
  uint32_t cores;                  /* of a device */
  uint32_t sbuf_bytes, psum_bytes; /* of a partition */
  uint32_t dma_engines;            /* of a core: what a transfer adds to its semaphore */
  uint32_t hypothetical, zero;
} soma_target_info;
/* The machine's target; SOMA_ARG if it has none yet. */
soma_status soma_machine_target(const soma_machine *m, soma_target_info *out, size_t n);
/* Row i of the table of targets. SOMA_ARG past the last. n is sizeof(soma_target_info). */
soma_status soma_target_row(uint32_t i, soma_target_info *out, size_t n);
/* Stops the machine's run at its next check, from any thread or a signal handler. */
void soma_machine_interrupt(soma_machine *m);
/* Gives runs started from now on the schedule that soma_options.schedule is for. */
soma_status soma_set_schedule(soma_machine *m, uint64_t schedule);
/* Changes constants of the clock for runs started from now on. Lines `NAME value` or `NAME gen
 * value`: gen is gen2, gen3, gen4 or a target's name (its generation); without one the constant
 * changes for all. Values are whole numbers in the constant's unit; `;` and `#` begin a comment.
 * SOMA_ARG names the line, and then nothing has changed. */
soma_status soma_costs_set(soma_machine *m, const char *text, size_t n);
/* The constants of a target (NULL: the machine's, else trn2) as text: one line for each with name,
 * value, unit, tag and source, which soma_costs_set can read. Tags: DOC documented, MEAS measured
 * on a published profile, FIT fitted, ASM assumed, SET changed from the table. The block comes from
 * malloc; free it with soma_bytes_free. */
soma_status soma_costs_print(soma_machine *m, const char *target, char **text, size_t *n);

/* ---- Programs ----------------------------------------------------------------------------- */

typedef struct soma_assemble_options {
  size_t size;
  const char *const *include_dirs;
  uint32_t ninclude_dirs;
  const char *const *defines; /* "name=value" or "name" */
  uint32_t ndefines;
  int no_files; /* nonzero: it is an error if the source reads a file by %include, incbin, npy */
  const char *(*env)(const char *name); /* %!NAME, as getenv; NULL: %!NAME is an error */
} soma_assemble_options;

/* Assembles source text, which messages call `name`. *p and *d are set to NULL or to handles that
 * the caller frees: SOMA_OK with *p (and *d if there are warnings), SOMA_SYNTAX with *d. options
 * and d may be NULL. m gives the allocator and the default target. */
soma_status soma_assemble(soma_machine *m, const char *text, size_t n, const char *name,
                          const soma_assemble_options *options, soma_program **p,
                          soma_diagnostics **d);
soma_status soma_assemble_file(soma_machine *m, const char *path,
                               const soma_assemble_options *options, soma_program **p,
                               soma_diagnostics **d);
/* One program of several files: texts of sources, and objects of soma-as -r. Sections are joined in
 * the order of the files, so an engine starts in the first file's code; names are shared by
 * `global` and `extern` (asm/reference.md, Objects). Else as soma_assemble; a define that no source
 * reads is one warning. */
typedef struct soma_file {
  const char *name; /* for messages */
  const void *data;
  size_t n;
} soma_file;
soma_status soma_link(soma_machine *m, const soma_file *files, uint32_t n,
                      const soma_assemble_options *options, soma_program **p, soma_diagnostics **d);
/* Reads the bytes of a .sbc file; they are not needed afterwards. */
soma_status soma_program_load(soma_machine *m, const void *data, size_t n, soma_program **p);
/* Writes p as .sbc bytes into a block from malloc, which the caller frees with soma_bytes_free.
 * The same program gives the same bytes. */
soma_status soma_program_save(soma_machine *m, soma_program *p, void **data, size_t *n);
/* The program as source text, operands in raw form; a block as above. */
soma_status soma_program_print(soma_machine *m, soma_program *p, char **text, size_t *n);
/* What soma-dis prints: the same with operands by name, as slices, and comments at labels (which
 * instructions jump there) and at semaphores (which instructions update them and wait for them); a
 * block as above. */
soma_status soma_disassemble(soma_machine *m, const soma_program *p, char **text, size_t *n);
void soma_bytes_free(void *data);
void soma_program_free(soma_program *p);
const char *soma_program_target(const soma_program *p);

/* Static checks of the whole program, which need no run: waits that nothing can satisfy,
 * semaphores that drift in a loop, tiles that are not used or read before anything can have written
 * them, code that nothing reaches. *d is NULL if there are no findings, else the caller frees it;
 * notes are not counted. It assumes that the host sets neither semaphores nor registers.
 * SOMA_ILLEGAL or SOMA_UNBUILT for a program that soma_run_start would refuse. */
soma_status soma_lint(soma_machine *m, const soma_program *p, soma_diagnostics **d);

typedef enum soma_role { SOMA_TEMP, SOMA_INPUT, SOMA_OUTPUT, SOMA_CONST } soma_role;
typedef struct soma_tensor_info {
  const char *name; /* lives as long as the program */
  soma_dtype dtype;
  soma_role role;
  uint32_t ndim;
  int64_t shape[8];
  uint64_t bytes;
} soma_tensor_info;
/* Tensors in order of declaration; SOMA_ARG past the last. If the first dimension is left to the
 * run, shape and bytes have the largest one allowed. */
uint32_t soma_program_tensors(const soma_program *p);
soma_status soma_program_tensor(const soma_program *p, uint32_t i, soma_tensor_info *out);
/* The register that has the first dimension of tensor i when a run starts; -1: it is fixed. */
int soma_program_rows(const soma_program *p, uint32_t i);

/* How many diagnostics there are, and how many of them are errors. */
uint32_t soma_diagnostics_count(const soma_diagnostics *d);
uint32_t soma_diagnostics_errors(const soma_diagnostics *d);
/* All as text, in order, each with its place, the source line and a caret, ending with a newline;
 * lives as long as d. */
const char *soma_diagnostics_text(const soma_diagnostics *d);
void soma_diagnostics_free(soma_diagnostics *d);

/* ---- Runs --------------------------------------------------------------------------------- */

/* Binds the caller's data to the program's tensor of that name: dtype and shape must be the
 * program's. The next soma_run_start of p copies the bytes into the machine's HBM, so data must
 * stay until then; each run needs its own bindings. SOMA_ARG names what does not match. */
soma_status soma_bind(soma_machine *m, soma_program *p, const char *name, soma_dtype dtype,
                      uint32_t ndim, const int64_t *shape, const void *data);
/* The same without a copy, for large data. If no instruction of p writes that tensor, the data are
 * used in place and never written, else they are copied. They must not change until the run is
 * freed. They count as copied to the device either way. */
soma_status soma_bind_shared(soma_machine *m, soma_program *p, const char *name, soma_dtype dtype,
                             uint32_t ndim, const int64_t *shape, const void *data);
/* The same with a tensor of m's HBM, which the program then reads and writes in place: nothing is
 * copied, so that the output of one run can be the input of the next. */
typedef struct soma_tensor soma_tensor;
soma_status soma_bind_tensor(soma_machine *m, soma_program *p, const char *name, soma_tensor *t);
/* Gives the first dimension, from 1 to the most, of a tensor for which the program leaves it to the
 * run (`x tensor float32[r10 <= 1024, 64]`). soma_bind, soma_bind_shared and soma_bind_tensor give
 * it by their shape; this is for a tensor without data, such as an output. Tensors with the same
 * register have the same first dimension, so one of them is enough; register r10 of each engine has
 * it when the run starts. soma_run_start gives SOMA_ARG if nothing gives it or two calls differ,
 * and SOMA_FAULT if a static transfer goes beyond it. */
soma_status soma_bind_rows(soma_machine *m, soma_program *p, const char *name, int64_t rows);
/* Removes the bindings of p, or of all programs if p is NULL. After a soma_run_start that failed
 * the bindings are still there. */
void soma_unbind(soma_machine *m, const soma_program *p);
/* Starts a run: verifies the program, places its tensors in HBM (SOMA_LIMIT as soma_tensor_new),
 * copies bound inputs and const data, sets the rest to zero. Inputs that are not bound are an
 * error. Semaphores, registers (except for sizes, see soma_bind_rows) and accumulators start at
 * zero; SBUF and PSUM keep their bytes. SOMA_BUSY while another run of the machine has not ended or
 * been freed. The run holds a reference to p. */
soma_status soma_run_start(soma_machine *m, soma_program *p, soma_run **r);
/* Where soma_run_until stops: when the run ends, after one event, after an instruction of an
 * engine has issued, or when simulated time reaches a limit. */
typedef enum soma_until { SOMA_END, SOMA_EVENT, SOMA_ISSUE, SOMA_TIME } soma_until;
/* Runs. engine is for SOMA_ISSUE, time for SOMA_TIME. SOMA_OK when the stop was reached or the
 * run has ended (see soma_run_ended); SOMA_FAULT, SOMA_DEADLOCK, SOMA_LIMIT, SOMA_STOPPED end
 * it too, and memories can still be read. After SOMA_STOPPED the run may be continued. */
soma_status soma_run_until(soma_run *r, soma_until what, soma_engine engine, soma_time time);
int soma_run_ended(const soma_run *r);
/* The complete state of a run as the bytes of a file: the program, the contents of its inputs,
 * tensors and memories, what is in flight, its options (saturate, rounding_seed, costs,
 * timing_only, causes, schedule, no_twins, checks with all they have seen) and figures. The block
 * comes from malloc; free it with soma_bytes_free. Equal states give equal bytes, on every host.
 * A run can be saved whenever soma_run_until has returned, also after SOMA_LIMIT and SOMA_STOPPED,
 * as long as its machine exists and has no other run. SOMA_ARG after a fault, a deadlock or
 * SOMA_CHECK, and while one device tensor, or overlapping views of one, are bound to two of its
 * tensors; SOMA_BUSY in a callback. */
soma_status soma_run_save(soma_run *r, void **data, size_t *n);
/* Continues a saved run in m, as a new run; the caller frees it and its program *p. From there on
 * everything is, bit for bit, as if the run had never been saved: events, results, statistics
 * (host_seconds, and with it max_seconds, counts from here). Callbacks and limits are m's; the
 * options named above are the run's own (SOMA_ARG if m asks for other checks). Device tensors that
 * were bound to the run are now its own HBM, with their contents. SBUF and PSUM of m are replaced.
 * Only the version that saved a run can resume it: SOMA_FORMAT names both. The bytes need not be
 * trusted: if they are not a state of a run, this gives SOMA_FORMAT, or SOMA_ILLEGAL, SOMA_LIMIT or
 * SOMA_BUSY as for soma_run_start, and m does not change, except that its target may now be
 * decided. */
soma_status soma_run_resume(soma_machine *m, const void *data, size_t n, soma_program **p,
                            soma_run **r);
/* Tensor i of the run's program with the shape and the bytes that it has in this run; SOMA_ARG past
 * the last. */
soma_status soma_run_tensor(const soma_run *r, uint32_t i, soma_tensor_info *out);
/* Copies a tensor of the program out of HBM; n must be its size in bytes. */
soma_status soma_fetch(soma_run *r, const char *name, void *data, size_t n);
/* Hands over the tensor's memory instead. Free it with soma_result_free, also after r and its
 * machine are freed. A run that has ended without a fault still uses this memory: a later
 * soma_fetch, soma_run_save or soma_take of the tensor sees what the caller writes. For any other
 * run, and for a tensor that is bound to a device tensor or to shared data, *x is a copy. Counts as
 * soma_fetch does. A result may be freed in any thread if the machine's allocator allows it, as
 * malloc does. */
typedef struct soma_result soma_result;
soma_status soma_take(soma_run *r, const char *name, soma_result **x);
void *soma_result_data(soma_result *x);
size_t soma_result_size(const soma_result *x);
void soma_result_free(soma_result *x);
void soma_run_free(soma_run *r);

/* The numbers of soma_stats.def, which says what each is. Times are in femtoseconds. For two cores
 * counts and busy times are sums, sbuf_touched and psum_touched the larger, pc core 0's; an engine
 * has halted when both have. */
typedef struct soma_engine_stats {
#define ENGINE(type, name, unit, text) type name;
#include "soma_stats.def"
} soma_engine_stats;
typedef struct soma_stats {
#define COUNTER(name, unit, layout, text) uint64_t name;
#define STAT(type, name, unit, text) type name;
#define STATS(type, name, unit, script, text) type name[SOMA_ENGINES];
#define ENGINES(name) soma_engine_stats name[SOMA_ENGINES];
#include "soma_stats.def"
} soma_stats;
/* Statistics so far. out->size is not needed: the struct only grows at its end between minor
 * versions, and n is sizeof(soma_stats) of the caller. */
void soma_run_stats(const soma_run *r, soma_stats *out, size_t n);
/* The same for core 0 or 1 alone; SOMA_ARG if the program has no such core. time, launch, host and
 * the counts of HBM and of the host are those of the run. */
soma_status soma_core_stats(const soma_run *r, unsigned core, soma_stats *out, size_t n);

/* What a field of soma_stats is, for readers that know no field in advance. */
typedef struct soma_stat {
  const char *name;       /* the field's */
  const char *script;     /* the name in scripts, where it is another one; without _ns of times */
  const char *unit;       /* "count" "bytes" "flops" "time" "seconds" "rate" "hash" "flag" */
  const char *text;       /* what it is. The strings are static */
  uint32_t offset, bytes; /* of the field, or of its first element */
  uint32_t elements;      /* 1, or SOMA_ENGINES: one for each engine */
} soma_stat;
/* Field i of soma_stats, or of soma_engine_stats if of_engine; `engine` itself is no field.
 * SOMA_ARG past the last. */
soma_status soma_stats_field(int of_engine, uint32_t i, soma_stat *out);

/* Ratios of the statistics, as the vendor's profiler defines them (vm/record/README.md has the
 * formulas): fractions of 1, not percent; 0 where there is nothing to divide by. */
typedef struct soma_figures {
  double mfu, hfu, mbu;    /* utilisation: model flops, hardware flops, memory bandwidth */
  double intensity;        /* model flops per byte of HBM traffic */
  double peak_flops;       /* a second, of the run's own mix of types */
  double ridge;            /* peak_flops over peak_hbm: below it memory is the bound */
  double attainable_flops; /* a second: the roofline at this intensity */
  double model_flops;      /* a second: what the run achieved */
  double dma_active;
  double dma_average_bytes;         /* of a transfer */
  double active[SOMA_ENGINES];      /* at least one instruction in the data path */
  double utilization[SOMA_ENGINES]; /* tensor: hfu; the others: streaming */
} soma_figures;
/* n is sizeof(soma_figures) of the caller. */
void soma_stats_figures(const soma_stats *s, soma_figures *out, size_t n);

typedef struct soma_fault {
  soma_status status; /* SOMA_FAULT, SOMA_DEADLOCK, SOMA_LIMIT or SOMA_STOPPED; SOMA_OK: none */
  int engine;         /* soma_engine, or -1 if it belongs to no engine */
  int dma_engine;     /* 0-15 when a transfer faulted, else -1 */
  uint32_t pc, line;  /* line 0: unknown */
  const char *file;   /* NULL: unknown */
  soma_time time;
  const char *instruction; /* its text, "" if none exists */
  const char *text;        /* the rule and the values, several lines for a deadlock */
} soma_fault;
/* The fault that ended the run. Strings live as long as the run. */
void soma_run_fault(const soma_run *r, soma_fault *out);
unsigned soma_run_fault_core(const soma_run *r); /* the core of that engine: 0 or 1 */

/* ---- Checks ------------------------------------------------------------------------------- */

/* Checks for what the machine leaves undefined, and for what works only by luck of timing. A run
 * with findings continues to its end, with the same results and times; its status is then
 * SOMA_CHECK. soma_options.schedule is another way to find such luck: under each seed every latency
 * is multiplied by a quarter to four, and a correctly synchronised program gives the same bits.
 * Twins, transfers of both cores from one line that write the same bytes to the same places of HBM,
 * need no order, nor does a read with the other core's twin if it comes after its own. */
typedef enum soma_check {
#define CHECK(code, name, values, usual, text) SOMA_CHECK_##code, /* soma_checks.def says what */
#include "soma_checks.def"
  SOMA_CHECKS
} soma_check;
enum { SOMA_CHECK_ALL = (1 << SOMA_CHECKS) - 1 };
/* "uninit" and so on; what it finds; NULL past the last. Static. */
const char *soma_check_name(soma_check c);
const char *soma_check_text(soma_check c);
/* 1 << soma_check of those that kernels are usually checked with. */
unsigned soma_check_usual(void);
typedef struct soma_finding {
  soma_check check;
  soma_engine engine; /* of the instruction; of the later one if there are two */
  uint32_t pc, line;  /* line 0: unknown */
  const char *file;   /* NULL: unknown */
  soma_time time;
  const char *text; /* the finding in full, several lines, with its place; ends with a newline */
} soma_finding;
/* How many findings there are so far; only the first 64 are told. SOMA_ARG past the
 * last. Each pair of places is reported once. Texts live as long as r; that of a finding that has
 * grown since lives until it is asked for again. */
uint64_t soma_run_findings(const soma_run *r);
soma_status soma_run_finding(const soma_run *r, uint32_t i, soma_finding *out);
/* The core whose engine finding i names: 0 or 1; 0 past the last. */
unsigned soma_run_finding_core(const soma_run *r, uint32_t i);

/* Whether a run would do the same under every legal timing, not only this one. If semaphores only
 * count up (waits with >= and >) this is decided for programs of any size; with any other wait
 * or update all states are tried, at most 10^6. */
typedef enum soma_verdict {
  SOMA_TIMING_SAME,    /* it does not depend on timing */
  SOMA_TIMING_DEPENDS, /* in some timing two accesses conflict, or a wait never ends */
  SOMA_TIMING_UNKNOWN  /* not decided */
} soma_verdict;
typedef struct soma_schedules {
  soma_verdict verdict;
  uint64_t states; /* how many were examined */
  /* Where: two places, or one and -1, or -1 twice; for SOMA_TIMING_UNKNOWN where it stopped. */
  int engine, other_engine;
  uint32_t pc, other_pc;
  const char *text; /* the verdict; places and a schedule for each order; lives as long as r */
} soma_schedules;
/* For a run with soma_options.schedule SOMA_SCHEDULE_ALL that has ended well or with SOMA_CHECK;
 * else SOMA_ARG. The first call decides, which may take seconds. n is sizeof(soma_schedules) of the
 * caller. */
soma_status soma_run_schedules(soma_run *r, soma_schedules *out, size_t n);

/* Is called with n bytes of output; if it returns nonzero, writing ends. */
typedef int (*soma_write_fn)(void *ud, const char *p, size_t n);
typedef struct soma_recorder soma_recorder; /* see Recording a run */

/* ---- Critical path ------------------------------------------------------------------------ */

/* Where the time of a run went: the instruction or transfer that ended last, what determined
 * its start, and so on back to the beginning. Segments follow one another without a gap. */
typedef enum soma_path_kind {
  SOMA_PATH_DATA = 1,  /* an instruction in a data path */
  SOMA_PATH_SEQUENCER, /* control instructions, making descriptors, writing doorbells */
  SOMA_PATH_TRANSFER,  /* a ring's share of a transfer */
  SOMA_PATH_DELAY /* the time from a cause to its effect, as for a semaphore or a DMA's start */
} soma_path_kind;
typedef struct soma_path_segment {
  soma_path_kind kind;
  int engine;     /* soma_engine of the instruction */
  int dma_engine; /* for a transfer 0-15, else -1 */
  uint32_t pc, line;
  unsigned core;     /* of the engine, queue and semaphore: 0 or 1 */
  const char *file;  /* NULL: unknown */
  const char *name;  /* mnemonic */
  const char *cause; /* why it began then: "semaphore", "data path busy" ... Static. */
  soma_time start, end;
  int queue;              /* of a DMA instruction, else -1 */
  int semaphore;          /* if that is the cause, else -1 */
  const char *queue_name; /* NULL: none */
  const char *semaphore_name;
  int rank; /* of a world: the other rank that it is of; -1: of r's own */
} soma_path_segment;
/* A path that comes to a message of another rank of a world goes on there, until the world starts
 * again. Segments of the run so far, earliest first: writes at most max of them (the latest are
 * left out) and sets *n to how many there are. SOMA_ARG unless the run was started with
 * options.causes. */
soma_status soma_critical_path(const soma_run *r, soma_path_segment *out, uint32_t max,
                               uint32_t *n);

/* Where the time of a run went, as text: its critical path by engine, queue and kind of wait
 * (the shares are of the whole run and sum to 100 %), then the path itself with repeats folded;
 * and, if rec holds the run's events, the largest idle gaps of the engines. rec may be NULL;
 * the allocator is the machine's. SOMA_ARG unless the run was started with options.causes. */
soma_status soma_write_explanation(const soma_run *r, const soma_recorder *rec, soma_write_fn write,
                                   void *ud);

/* ---- State, between events ---------------------------------------------------------------- */

soma_status soma_semaphore_get(soma_machine *m, uint32_t id, uint32_t *value);
soma_status soma_semaphore_set(soma_machine *m, uint32_t id, uint32_t value);
/* Number of the semaphore of that name in p, -1 if none exists. */
int soma_program_semaphore(const soma_program *p, const char *name);
soma_status soma_register_get(soma_machine *m, soma_engine e, uint32_t r, uint32_t *value);
soma_status soma_register_set(soma_machine *m, soma_engine e, uint32_t r, uint32_t value);
typedef enum soma_memory { SOMA_SBUF = 1, SOMA_PSUM } soma_memory;
/* Copies n bytes of one partition from byte offset. */
soma_status soma_memory_read(soma_machine *m, soma_memory mem, uint32_t partition, uint64_t offset,
                             void *data, size_t n);
soma_status soma_memory_write(soma_machine *m, soma_memory mem, uint32_t partition, uint64_t offset,
                              const void *data, size_t n);
/* The same for core 0 or 1 of the run's program; a program for one core has only core 0. */
soma_status soma_core_semaphore_get(soma_machine *m, unsigned core, uint32_t id, uint32_t *value);
soma_status soma_core_semaphore_set(soma_machine *m, unsigned core, uint32_t id, uint32_t value);
soma_status soma_core_register_get(soma_machine *m, unsigned core, soma_engine e, uint32_t r,
                                   uint32_t *value);
soma_status soma_core_register_set(soma_machine *m, unsigned core, soma_engine e, uint32_t r,
                                   uint32_t value);
soma_status soma_core_memory_read(soma_machine *m, unsigned core, soma_memory mem,
                                  uint32_t partition, uint64_t offset, void *data, size_t n);
soma_status soma_core_memory_write(soma_machine *m, unsigned core, soma_memory mem,
                                   uint32_t partition, uint64_t offset, const void *data, size_t n);
int soma_program_core_semaphore(const soma_program *p, unsigned core, const char *name);
/* Cores of a program: 1 or 2. */
unsigned soma_program_cores(const soma_program *p);
typedef struct soma_tile_info {
  const char *name;
  soma_memory memory;
  soma_dtype dtype;
  uint32_t ndim; /* counts the partition dimension */
  uint32_t shape[5];
  uint32_t partition, offset, bytes; /* start partition; place and size in each partition */
} soma_tile_info;
uint32_t soma_program_tiles(const soma_program *p);
soma_status soma_program_tile(const soma_program *p, uint32_t i, soma_tile_info *out);

#ifdef __cplusplus
}
#endif
#include "soma_custom.h" /* custom operators */
#include "soma_device.h" /* tensors in HBM, and what is there */
#include "soma_debug.h"  /* stops, the map of instructions and lines, going back */
#include "soma_kernel.h" /* kernels without semaphores */
#include "soma_trace.h"  /* recording a run, and writing it */
#include "soma_world.h"  /* ranks that send one another messages */
#endif
