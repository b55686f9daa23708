/* Every allocation of the library fails once. A scenario is a use of soma.h with all that it makes
 * freed at its end; it runs with its first allocation failing, then with its second, and so on,
 * each alone and with all that follow. Whatever it gives then is "out of memory", or the very
 * result it gives otherwise; and all memory comes back, with its right sizes. */
#include "../../asm/asm.h"
#include "../fuzz/gen.h"
#include "alloc_bed.h"

/* ---- Programs, and all that is done with one ---------------------------------------------- */

static const char text[] = "%define N 8\n%macro both 2\n nop %1\n nop %2\n%endmacro\n"
                           "a tensor float32[4, N], input\nb tensor float32[4, N], output\n"
                           "k tensor int32[2], const = [3, 4]\nta tile sbuf float32[4, N]\nin sem\n"
                           "unused sem\nq queue dge=hwdge\nsection sync\n"
                           " dma_copy ta, a, queue=q $in\n%rep 3\n nop\n%endrep\n"
                           " both $in>=16, $in>=1\n dma_copy b, ta, queue=q\n.l: halt\n"
                           "section vector\n mov r1, WIDTH\n halt\n";

static soma_status bytes_of(use *u, soma_status s, void *data, size_t n) {
  if (s == SOMA_OK) put(u, data, n);
  soma_bytes_free(data);
  return s;
}

static soma_status save_and_print(use *u, soma_machine *m, soma_program *p) {
  soma_program *q = NULL;
  void *data = NULL;
  char *source = NULL;
  size_t n = 0;
  soma_status s = soma_program_save(m, p, &data, &n);
  if (s == SOMA_OK) s = soma_program_load(m, data, n, &q);
  s = bytes_of(u, s, data, n);
  if (s == SOMA_OK) {
    s = soma_program_print(m, q, &source, &n);
    s = bytes_of(u, s, source, n);
  }
  if (s == SOMA_OK) {
    s = soma_disassemble(m, q, &source, &n);
    s = bytes_of(u, s, source, n);
  }
  if (s == SOMA_OK) {
    soma_diagnostics *found;
    s = soma_lint(m, q, &found);
    soma_diagnostics_free(found);
  }
  soma_program_free(q);
  if (s == SOMA_OK) {
    s = soma_costs_print(m, NULL, &source, &n);
    s = bytes_of(u, s, source, n);
  }
  return s;
}

/* A machine from its beginning; a run that leaves it before its end. */
static soma_status whole_life(use *u) {
  static const float zeros[32];
  static const int64_t shape[2] = {4, 8};
  static const char *const defines[] = {"WIDTH=5", "OTHER"};
  static const char *const dirs[] = {"samples", "tests"};
  soma_assemble_options ao = {.size = sizeof ao,
                              .include_dirs = dirs,
                              .ninclude_dirs = 2,
                              .defines = defines,
                              .ndefines = 2};
  soma_machine *m;
  soma_program *p = NULL;
  soma_run *r = NULL;
  soma_diagnostics *d = NULL;
  soma_options o = options(u);
  soma_status s = soma_machine_new(&o, &m);
  if (s != SOMA_OK) return s;
  s = soma_assemble(m, text, strlen(text), "t.s", &ao, &p, &d);
  if (s == SOMA_OK) s = save_and_print(u, m, p);
  if (s == SOMA_OK) s = soma_bind(m, p, "a", SOMA_FLOAT32, 2, shape, zeros);
  if (s == SOMA_OK) s = soma_run_start(m, p, &r);
  if (s == SOMA_OK) s = soma_run_until(r, SOMA_ISSUE, SOMA_SYNC, 0);
  soma_machine_free(m);
  soma_run_free(r);
  soma_program_free(p);
  soma_diagnostics_free(d);
  return s;
}

static void life(void **state) {
  (void)state;
  use u = {.name = "a machine"};
  each_allocation(&u, whole_life);
  assert_int_equal(u.h.alive, 0);
  heap_end(&u.h);
}

/* ---- The assembler's own interface -------------------------------------------------------- */

static bool read_text(void *ud, const char *path, isa_buf *out) {
  (void)ud;
  isa_buf_puts(out, strcmp(path, "part.s") == 0 ? "extern t\nsection sync\n jmp t\n" : text);
  return true;
}

static soma_status assemble_all_ways(use *u) {
  static const as_define width = {.name = "WIDTH", .value = "5"};
  isa_alloc al = {take, &u->h};
  as_options o = {.alloc = &al,
                  .read = read_text,
                  .want_listing = true,
                  .relocatable = true,
                  .defines = &width,
                  .ndefines = 1};
  as_result r;
  isa_status s = as_assemble(text, strlen(text), "t.s", &o, &r);
  if (s == ISA_OK) put(u, isa_buf_str(&r.object), r.object.len);
  if (s == ISA_OK) put(u, isa_buf_str(&r.listing), r.listing.len);
  isa_buf object = r.object;
  isa_buf_init(&r.object, &al);
  isa_program_free(r.program);
  as_result_free(&r);
  if (s == ISA_OK) {
    as_file files[] = {{.name = "t.o", .data = isa_buf_str(&object), .n = object.len}};
    s = as_link(files, 1, &o, &r);
    isa_program_free(r.program);
    as_result_free(&r);
  }
  isa_buf_free(&object);
  if (s != ISA_OK) return (soma_status)s;
  o.only_preprocess = true;
  s = as_assemble_file("whole.s", &o, &r);
  if (s == ISA_OK) put(u, isa_buf_str(&r.preprocessed), r.preprocessed.len);
  isa_program_free(r.program);
  as_result_free(&r);
  return (soma_status)s;
}

static soma_status assemble_errors(use *u) {
  static const char *const bad[] = {
      "target trn2\n bogus\nx tensor floot32[4]\n dma_copy x\n%macro m 1\n nop %2\n%endmacro\n m "
      "1\n",
      "section sync\n jmp nowhere\n halt\na tile sbuf float32[999, 4]\n add r1, r2\n%if 1\n",
  };
  isa_alloc al = {take, &u->h};
  as_options o = {.alloc = &al, .read = read_text};
  soma_status s = SOMA_SYNTAX;
  for (int i = 0; i < 2 && s == SOMA_SYNTAX; i++) {
    as_result r;
    s = (soma_status)as_assemble(bad[i], strlen(bad[i]), "bad.s", &o, &r);
    put_number(u, r.nerrors);
    isa_program_free(r.program);
    as_result_free(&r);
  }
  return s;
}

static void assembler(void **state) {
  (void)state;
  use u = {.name = "the assembler"};
  each_allocation(&u, assemble_all_ways);
  u.name = "the assembler's messages";
  u.want = SOMA_SYNTAX;
  each_allocation(&u, assemble_errors);
  heap_end(&u.h);
}

/* ---- Runs --------------------------------------------------------------------------------- */

static void on_event(void *ud, const soma_event *e) {
  use *u = ud;
  if (u->rec) soma_recorder_event(u->rec, e);
}

static int on_output(void *ud, const char *p, size_t n) {
  put(ud, p, n);
  return 0;
}

static soma_status write_all(use *u, soma_program *p, const soma_run *r) {
  soma_status s = soma_write_chrome(u->rec, p, on_output, u);
  for (int t = 0; t < SOMA_TABLES && s == SOMA_OK; t++)
    s = soma_write_table(u->rec, p, (soma_table)t, t % 2 ? SOMA_CSV : SOMA_JSON_LINES, on_output,
                         u);
  if (s == SOMA_OK) s = soma_write_timeline(u->rec, p, 60, on_output, u);
  if (s == SOMA_OK) s = soma_write_html(u->rec, p, r, "title", on_output, u);
  return s;
}

/* False when memory was out for a message, which then says no more than that. */
static bool digest_messages(use *u, soma_run *r) {
  soma_finding f;
  soma_fault fault;
  bool whole = true;
  soma_run_fault(r, &fault);
  put(u, fault.text, strlen(fault.text));
  if (strcmp(fault.text, soma_status_text(fault.status)) == 0) whole = false;
  for (uint32_t i = 0; soma_run_finding(r, i, &f) == SOMA_OK; i++) {
    put(u, f.text, strlen(f.text));
    if (strcmp(f.text, "out of memory\n") == 0) whole = false;
  }
  return whole;
}

static void digest_run(use *u, soma_program *p, soma_run *r) {
  static uint8_t out[1 << 20];
  soma_stats st;
  soma_run_stats(r, &st, sizeof st);
  put_number(u, st.trace_hash);
  put_number(u, soma_run_findings(r));
  for (uint32_t i = 0; i < soma_program_tensors(p); i++) {
    soma_tensor_info t;
    soma_program_tensor(p, i, &t);
    if (t.role == SOMA_OUTPUT && t.bytes <= sizeof out &&
        soma_fetch(r, t.name, out, t.bytes) == SOMA_OK)
      put(u, out, t.bytes);
  }
}

static soma_status bind_zeros(use *u, soma_program *p) {
  static const uint8_t zeros[1 << 20];
  soma_status s = SOMA_OK;
  for (uint32_t i = 0; i < soma_program_tensors(p) && s == SOMA_OK; i++) {
    soma_tensor_info t;
    soma_program_tensor(p, i, &t);
    assert_true(t.bytes <= sizeof zeros || t.role != SOMA_INPUT);
    if (t.role == SOMA_INPUT)
      s = (i % 2 ? soma_bind : soma_bind_shared)(u->m, p, t.name, t.dtype, t.ndim, t.shape, zeros);
  }
  return s;
}

static soma_status run_to_end(use *u, soma_program *p) {
  soma_run *r = NULL;
  soma_path_segment seg[4];
  uint32_t n = 0;
  soma_status s = soma_run_start(u->m, p, &r);
  if (s != SOMA_OK) return s;
  s = soma_run_until(r, SOMA_END, SOMA_SYNC, 0);
  if (s != SOMA_NOMEM && soma_critical_path(r, seg, 4, &n) == SOMA_NOMEM) s = SOMA_NOMEM;
  if (s != SOMA_NOMEM && !digest_messages(u, r)) s = SOMA_NOMEM;
  if (s != SOMA_NOMEM) digest_run(u, p, r);
  /* Events that found no room are lost, and counted; the run is as good as before. */
  if (s != SOMA_NOMEM && soma_recorder_dropped(u->rec)) s = SOMA_NOMEM;
  if (s != SOMA_NOMEM && write_all(u, p, r) == SOMA_NOMEM) s = SOMA_NOMEM;
  soma_run_free(r);
  return s;
}

/* A file's program on a machine with every check and record. */
static soma_status recorded_run(use *u) {
  soma_recorder_options ro = SOMA_RECORDER_OPTIONS_INIT;
  soma_program *p = NULL;
  ro.alloc = take;
  ro.alloc_ud = &u->h;
  soma_status s = soma_program_load(u->m, u->image.data, u->image.len, &p);
  if (s == SOMA_OK) s = soma_recorder_new(&ro, &u->rec);
  if (s == SOMA_OK) s = bind_zeros(u, p);
  if (s == SOMA_OK) s = run_to_end(u, p);
  soma_unbind(u->m, NULL);
  soma_program_free(p);
  soma_recorder_free(u->rec);
  u->rec = NULL;
  return s;
}

static void machine_open(use *u, const char *target, unsigned checks) {
  soma_options o = options(u);
  o.target = target;
  o.checks = checks;
  o.causes = 1;
  o.event = on_event;
  o.event_ud = u;
  assert_int_equal(soma_machine_new(&o, &u->m), SOMA_OK);
}

static void machine_close(use *u) {
  soma_machine_free(u->m);
  u->m = NULL;
  assert_int_equal(u->h.alive, 0);
  heap_end(&u->h);
}

/* Puts a legal one before the engine's halt; false when none of the draws is legal. */
static bool put_insn(gen *g, unsigned op, unsigned engine) {
  isa_code *code = &g->prog->cores[0].code[engine];
  for (int i = 0; i < 200; i++) {
    gen_mark mark = gen_here(g);
    isa_insn in, halt = {.op = ISA_OP_halt};
    isa_place at;
    isa_error e = {0};
    gen_draw(g, op, engine, i % 2, &in);
    memset(&in.wait, 0, sizeof in.wait); /* it runs at once */
    code->n--;
    isa_program_insn(g->prog, 0, engine, &in, (isa_line){0});
    isa_program_insn(g->prog, 0, engine, &halt, (isa_line){0});
    if (isa_check_insn(g->prog, 0, engine, &in, code->n, &e) && isa_check_program(g->prog, &at, &e))
      return true;
    code->n -= 2;
    isa_program_insn(g->prog, 0, engine, &halt, (isa_line){0});
    gen_back(g, mark);
  }
  return false;
}

/* A program with three of an instruction on an engine that can have it: in DMA, one with a fitting
 * queue; of two cores, which do the same, for those that need them. NULL: the seed leads to none.
 */
static isa_program *program_of(unsigned op, const isa_target *t, uint64_t seed, bool pair) {
  isa_alloc al = isa_alloc_default();
  gen g = {.more = seed, .pair = pair};
  assert_non_null(gen_program(&g, &al, t));
  bool ok = op == ISA_OP_halt;
  for (unsigned e = ISA_NENGINES; e-- > 0 && !ok;)
    for (int i = 0; i < 3 && (isa_ops[op].engines & 1u << e) && (ok || i == 0); i++)
      ok = put_insn(&g, op, e);
  if (ok && (!pair || gen_twin(g.prog))) return g.prog;
  isa_program_free(g.prog);
  return NULL;
}

/* Sets the program of a use of u's machine to one with the instruction that allocates at most MOST
 * times, so that the test ends; false when the target has no such instruction. */
static bool choose_program(use *u, unsigned op) {
  enum { MOST = 600, SEEDS = 200 };
  isa_alloc al = isa_alloc_default();
  const isa_target *t = &isa_targets[isa_target_find(soma_target(u->m), 4)];
  if (isa_ops[op].status != ISA_DONE || isa_ops[op].gen > t->gen) return false;
  if (!(isa_ops[op].engines & ISA_MASK_ANY)) return false; /* of CC sequencers: a world has them */
  u->name = isa_ops[op].name;
  for (uint64_t seed = 1; seed < SEEDS; seed++) {
    bool pair = seed > SEEDS / 2 && t->gen > 2;
    isa_program *p = program_of(op, t, 1000 * seed + op, pair);
    if (!p) continue;
    isa_buf_init(&u->image, &al);
    assert_true(isa_image_write(p, &u->image));
    isa_program_free(p);
    once(u, recorded_run, 0, false);
    if (u->h.calls <= MOST) return true;
    isa_buf_free(&u->image);
  }
  if (op != ISA_OP_dma_compute) fail_msg("no program of %s", u->name); /* static ones are drawn */
  return false;
}

/* Without the shadow bytes of `uninit`, which take as long to clear as all the rest. */
static void every_instruction(void **state) {
  (void)state;
  use u = {.any_end = true};
  long calls = 0;
  unsigned programs = 0;
  machine_open(&u, "trn3", SOMA_CHECK_ALL & ~(1u << SOMA_CHECK_UNINIT));
  for (unsigned op = 0; op < ISA_NOPS; op++) {
    if (!choose_program(&u, op)) continue;
    calls += each_allocation(&u, recorded_run);
    programs++;
    isa_buf_free(&u.image);
  }
  print_message("%ld allocations of %u programs, %u without a fault\n", calls, programs, u.good);
  assert_true(programs > 50 && u.good > programs / 2);
  machine_close(&u);
}

static void every_check(void **state) {
  (void)state;
  static const uint16_t ops[] = {ISA_OP_add, ISA_OP_activate, ISA_OP_matmul, ISA_OP_dma_trigger};
  use u = {.any_end = true};
  machine_open(&u, "trn1", SOMA_CHECK_ALL);
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    assert_true(choose_program(&u, ops[i]));
    each_allocation(&u, recorded_run);
    isa_buf_free(&u.image);
  }
  machine_close(&u);
}

/* ---- Device tensors ----------------------------------------------------------------------- */

static soma_status with_tensors(use *u) {
  static const int64_t shape[2] = {4, 8};
  static float data[32];
  soma_tensor *a = NULL, *b = NULL;
  soma_program *p = NULL;
  soma_run *r = NULL;
  soma_diagnostics *d = NULL;
  soma_assemble_options ao = {
      .size = sizeof ao, .defines = (const char *const[]){"WIDTH=1"}, .ndefines = 1};
  soma_status s = soma_assemble(u->m, text, strlen(text), "t.s", &ao, &p, &d);
  if (s == SOMA_OK) s = soma_tensor_new(u->m, SOMA_FLOAT32, 2, shape, &a);
  if (s == SOMA_OK) s = soma_tensor_new(u->m, SOMA_FLOAT32, 2, shape, &b);
  if (s == SOMA_OK) s = soma_tensor_write(a, data, sizeof data);
  if (s == SOMA_OK) soma_tensor_name(a, "first");
  if (s == SOMA_OK) s = soma_move_to_device(u->m, p);
  if (s == SOMA_OK) s = soma_bind_tensor(u->m, p, "a", a);
  if (s == SOMA_OK) s = soma_bind_tensor(u->m, p, "b", b);
  if (s == SOMA_OK) s = soma_run_start(u->m, p, &r);
  if (s == SOMA_OK) s = soma_run_until(r, SOMA_END, SOMA_SYNC, 0);
  soma_run_free(r);
  if (s == SOMA_OK || s == SOMA_CHECK) put_number(u, soma_tensor_read(b, data, sizeof data));
  soma_tensor_free(a);
  soma_tensor_free(b);
  soma_unbind(u->m, NULL);
  soma_drop_from_device(u->m, NULL);
  soma_program_free(p);
  soma_diagnostics_free(d);
  return s;
}

static void device_tensors(void **state) {
  (void)state;
  use u = {.name = "device tensors"};
  machine_open(&u, "trn2", 0);
  each_allocation(&u, with_tensors);
  assert_int_equal(soma_hbm_used(u.m), 0);
  machine_close(&u);
}

/* ---- Saved runs and custom operators ------------------------------------------------------- */

static soma_status twice(void *ud, soma_call *call) {
  float row[8];
  (void)ud;
  for (uint32_t p = 0; p < 128; p++) {
    soma_status s = soma_call_load(call, 1, p, 0, 8, row);
    for (int i = 0; i < 8; i++) row[i] *= 2;
    if (s == SOMA_OK) s = soma_call_store(call, 0, p, 0, 8, row);
    if (s != SOMA_OK) return s;
  }
  return SOMA_OK;
}

static const char saved_text[] =
    "a tensor float32[128, 8], input\nb tensor float32[128, 8], output\n"
    "ta tile sbuf float32[128, 8]\ntb tile sbuf float32[128, 8]\nin sem\ndone sem\n"
    "q queue dge=hwdge\nsection sync\n dma_copy ta, a, queue=q $in\n"
    " dma_copy b, tb, queue=q $done>=1\n halt\n"
    "section gpsimd\n custom_op \"twice\", dsts=[tb], srcs=[ta] $in>=16 $done++\n halt\n";

static soma_status resumed(use *u) {
  static const int64_t shape[2] = {128, 8};
  static float data[128 * 8];
  soma_custom_op op = SOMA_CUSTOM_OP_INIT;
  soma_options o = options(u);
  soma_machine *m = NULL, *other = NULL;
  soma_program *p = NULL, *q = NULL;
  soma_run *r = NULL, *again = NULL;
  void *bytes = NULL;
  size_t n = 0;
  for (int i = 0; i < 128 * 8; i++) data[i] = (float)i;
  op.fn = twice;
  soma_status s = soma_machine_new(&o, &m);
  if (s == SOMA_OK) s = soma_custom_set(m, "twice", &op);
  if (s == SOMA_OK) s = soma_assemble(m, saved_text, strlen(saved_text), "t.s", NULL, &p, NULL);
  if (s == SOMA_OK) s = soma_bind(m, p, "a", SOMA_FLOAT32, 2, shape, data);
  if (s == SOMA_OK) s = soma_run_start(m, p, &r);
  for (int i = 0; i < 12 && s == SOMA_OK; i++) s = soma_run_until(r, SOMA_EVENT, SOMA_SYNC, 0);
  if (s == SOMA_OK) s = soma_run_save(r, &bytes, &n);
  if (s == SOMA_OK) s = soma_machine_new(&o, &other);
  if (s == SOMA_OK) s = soma_custom_set(other, "twice", &op);
  if (s == SOMA_OK) s = soma_run_resume(other, bytes, n, &q, &again);
  if (s == SOMA_OK) s = soma_run_until(again, SOMA_END, SOMA_SYNC, 0);
  if (s == SOMA_OK) s = soma_fetch(again, "b", data, sizeof data);
  for (int i = 0; i < 128 * 8 && s == SOMA_OK; i++) assert_true(data[i] == 2 * (float)i);
  soma_bytes_free(bytes);
  soma_run_free(again);
  soma_run_free(r);
  soma_program_free(q);
  soma_program_free(p);
  soma_machine_free(other);
  soma_machine_free(m);
  return s;
}

/* ---- All schedules ------------------------------------------------------------------------- */

static const char *judged_text;

static soma_status judged(use *u) {
  soma_options o = options(u);
  soma_machine *m = NULL;
  soma_program *p = NULL;
  soma_run *r = NULL;
  soma_schedules v;
  o.schedule = SOMA_SCHEDULE_ALL;
  soma_status s = soma_machine_new(&o, &m);
  if (s == SOMA_OK) s = soma_assemble(m, judged_text, strlen(judged_text), "t.s", NULL, &p, NULL);
  if (s == SOMA_OK) s = soma_run_start(m, p, &r);
  if (s == SOMA_OK) s = soma_run_until(r, SOMA_END, SOMA_SYNC, 0);
  if (s == SOMA_OK) s = soma_run_schedules(r, &v, sizeof v);
  if (s == SOMA_OK) put(u, v.text, strlen(v.text));
  soma_run_free(r);
  soma_program_free(p);
  soma_machine_free(m);
  return s;
}

static void all_schedules(void **state) {
  static const char head[] = "t tile sbuf float32[128, 8]\nu tile sbuf float32[128, 8]\na sem\n"
                             "b sem\nq queue rings=2, dge=hwdge\nsection sync\n"
                             " dma_copy t, u, queue=q $a\n nop $b++\n nop $b++\n halt\n"
                             "section vector\n";
  static const char *const tails[] = {" tensor_copy u, t $a>=2 $b++\n halt\n",
                                      " tensor_copy u, t $a>=1\n halt\n",
                                      " tensor_copy u, t $a>=2\n nop $b>=2 $b=0\n halt\n",
                                      " tensor_copy u, t $a==2 $b+=2\n halt\n"};
  char all[512];
  (void)state;
  use u = {.name = "all schedules"};
  for (int i = 0; i < 4; i++) {
    snprintf(all, sizeof all, "%s%s", head, tails[i]);
    judged_text = all;
    each_allocation(&u, judged);
  }
  heap_end(&u.h);
}

static void saved_run(void **state) {
  (void)state;
  use u = {.name = "a saved run"};
  each_allocation(&u, resumed);
  heap_end(&u.h);
}

/* Three ranks with collectives: the planner, messages, and the rows of what is complete. */
static soma_status world_of_three(use *u) {
  static const char source[] =
      "target trn2\ng group [[0, 2, 1]]\nh group [[0, 1], [2]]\ndone sem\n"
      "x tensor float32[3, 40]\ny tensor float32[3, 40]\nt tile sbuf float32[6, 20]\n"
      "section gpsimd\n all_reduce dsts=[y], srcs=[x], group=g, op=add $done++\n"
      " all_reduce dsts=[t], srcs=[t], group=h, op=max $done++\n"
      " collective_permute dsts=[y], srcs=[x], pairs=[[0, 1], [1, 2]] $done++\n"
      " nop $done>=3\n halt\n";
  soma_options o = options(u);
  soma_world_options w = {.size = sizeof w, .ranks = 3, .machine = &o, .threads = 1};
  soma_world *world;
  soma_program *p = NULL;
  soma_collective c;
  o.print = NULL;
  o.max_time = 0;
  o.max_instructions = 0;
  soma_status s = soma_world_new(&w, &world);
  if (s != SOMA_OK) return s;
  s = soma_assemble(soma_world_machine(world, 0), source, strlen(source), "t.s", NULL, &p, NULL);
  for (uint32_t r = 0; r < 3 && s == SOMA_OK; r++) s = soma_world_load(world, r, p);
  if (s == SOMA_OK) s = soma_world_start(world);
  if (s == SOMA_OK) s = soma_world_until(world, SOMA_TIME_END);
  for (uint32_t i = 0; s == SOMA_OK && soma_world_collective(world, 2, i, &c) == SOMA_OK; i++)
    put_number(u, c.end);
  put_number(u, s == SOMA_OK ? soma_world_hash(world) : 0);
  soma_world_free(world);
  soma_program_free(p);
  return s;
}

static void worlds(void **state) {
  (void)state;
  use u = {.name = "a world"};
  each_allocation(&u, world_of_three);
  heap_end(&u.h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(life),
      cmocka_unit_test(assembler),
      cmocka_unit_test(every_instruction),
      cmocka_unit_test(every_check),
      cmocka_unit_test(device_tensors),
      cmocka_unit_test(saved_run),
      cmocka_unit_test(all_schedules),
      cmocka_unit_test(worlds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
