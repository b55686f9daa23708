/* What a run has done: as a table, as a text, and its fault. */
#include <inttypes.h>

#include <string.h>

#include "machine.h"

#define FAULT_CLASS "soma.fault"

/* ---- Statistics ---------------------------------------------------------------------------- */

/* The field f of the struct at `from`, of engine e if there is one for each, into the table on the
 * top: times in nanoseconds, their names with _ns.
 * The machine's own list of fields names them, so that nothing is written twice. */
static void set_field(lua_State *L, const soma_stat *f, const void *from, unsigned e) {
  const char *at = (const char *)from + f->offset + (size_t)e * f->bytes;
  uint64_t v = 0;
  double seconds;
  lua_pushfstring(L, strcmp(f->unit, "time") == 0 ? "%s_ns" : "%s", f->script);
  /* Fields have 4 or 8 bytes. */
  if (f->bytes == 4) {
    uint32_t small;
    memcpy(&small, at, sizeof small);
    v = small;
  } else {
    memcpy(&v, at, sizeof v);
  }
  if (strcmp(f->unit, "time") == 0) {
    /* Femtoseconds as nanoseconds. */
    lua_pushnumber(L, (lua_Number)v * 1e-6);
  } else if (strcmp(f->unit, "seconds") == 0) {
    memcpy(&seconds, at, sizeof seconds);
    lua_pushnumber(L, seconds);
  } else if (strcmp(f->unit, "hash") == 0) {
    char hash[20];
    /* As text, because a hash has all 64 bits and Lua's integers a sign. */
    snprintf(hash, sizeof hash, "%016" PRIx64, v);
    lua_pushstring(L, hash);
  } else if (strcmp(f->unit, "flag") == 0) {
    lua_pushboolean(L, v != 0);
  } else {
    lua_pushinteger(L, (lua_Integer)v);
  }
  lua_rawset(L, -3);
}

/* Names as the profiler's JSON has them, with the engine in front. */
static void set_percent(lua_State *L, const char *engine, const char *what, double fraction) {
  lua_pushfstring(L, "%s%s", engine, what);
  lua_pushnumber(L, 100 * fraction);
  lua_rawset(L, -3);
}

/* The figures by the names that the vendor's summary gives them: seconds and percent. */
static void push_summary(lua_State *L, const soma_stats *s) {
  /* The same figures that the summary prints. */
  soma_figures f;
  soma_stats_figures(s, &f, sizeof f);
  lua_createtable(L, 0, 40);
  /* Femtoseconds as seconds. */
  lb_set_number(L, "total_time", (double)s->time * 1e-15);
  lb_set_number(L, "launch_time", (double)s->launch * 1e-15);
  for (int e = 0; e < SOMA_ENGINES; e++) {
    const char *name = soma_engine_name((soma_engine)e);
    set_percent(L, name, "_engine_active_time_percent", f.active[e]);
    set_percent(L, name, "_engine_utilization_percent", f.utilization[e]);
    lua_pushfstring(L, "%s_engine_instruction_count", name);
    lua_pushinteger(L, (lua_Integer)s->engine[e].instructions);
    lua_rawset(L, -3);
  }
  lb_set_count(L, "hardware_flops", s->flops);
  lb_set_count(L, "transpose_flops", s->transpose_flops);
  lb_set_count(L, "adjusted_hardware_flops", s->adjusted_flops);
  lb_set_count(L, "adjusted_transpose_flops", s->adjusted_transpose_flops);
  set_percent(L, "", "mfu_estimated_percent", f.mfu);
  set_percent(L, "", "hfu_estimated_percent", f.hfu);
  set_percent(L, "", "mbu_estimated_percent", f.mbu);
  set_percent(L, "", "dma_active_time_percent", f.dma_active);
  lb_set_number(L, "dma_transfer_average_bytes", f.dma_average_bytes);
  lb_set_count(L, "hbm_read_bytes", s->hbm_read_bytes);
  lb_set_count(L, "hbm_write_bytes", s->hbm_write_bytes);
  lb_set_number(L, "mm_arithmetic_intensity", f.intensity);
  lb_set_number(L, "peak_flops_bandwidth_ratio", f.ridge);
  lb_set_number(L, "peak_flops_per_second", f.peak_flops);
  lb_set_number(L, "attainable_flops_per_second", f.attainable_flops);
  /* The roof over the peak: what the memory lets this program reach. */
  set_percent(L, "", "mfu_max_achievable_estimated_percent", f.attainable_flops / f.peak_flops);
  lb_set_count(L, "sbuf_touched_partition_bytes", s->sbuf_touched);
  lb_set_count(L, "psum_touched_partition_bytes", s->psum_touched);
}

static void push_engines(lua_State *L, const soma_stats *s) {
  soma_stat f;
  /* By name, so that scripts need no numbers of engines. */
  lua_createtable(L, 0, SOMA_ENGINES);
  for (unsigned e = 0; e < SOMA_ENGINES; e++) {
    lua_createtable(L, 0, 12);
    /* First what each engine counts by itself, then what the run counts for each
     * engine. */
    for (uint32_t i = 0; soma_stats_field(1, i, &f) == SOMA_OK; i++)
      set_field(L, &f, &s->engine[e], 0);
    for (uint32_t i = 0; soma_stats_field(0, i, &f) == SOMA_OK; i++)
      if (f.elements > 1) set_field(L, &f, s, e);
    lua_setfield(L, -2, soma_engine_name((soma_engine)e));
  }
}

/* A table of what a core did, or both together. */
static void push_work(lua_State *L, const soma_stats *s) {
  soma_stat f;
  lua_createtable(L, 0, 48);
  /* Fields of several elements are in the engines' tables. */
  for (uint32_t i = 0; soma_stats_field(0, i, &f) == SOMA_OK; i++)
    if (f.elements == 1) set_field(L, &f, s, 0);
  push_engines(L, s);
  lua_setfield(L, -2, "engine");
  push_summary(L, s);
  lua_setfield(L, -2, "summary");
}

/* stats.core[1] is core 0, of a program of two cores stats.core[2] core 1. */
static void push_cores(lua_State *L, const lb_run *run, const soma_stats *whole) {
  lua_createtable(L, (int)whole->cores, 0);
  /* Sums of both are in the table around it. */
  for (unsigned k = 0; k < whole->cores; k++) {
    soma_stats s = lb_run_core_stats(run, k);
    /* From 1 on, as sequences are in Lua. */
    push_work(L, &s);
    lua_seti(L, -2, (lua_Integer)k + 1);
  }
}

void lb_push_stats(lua_State *L, const lb_run *run) {
  soma_stats s = lb_run_stats(run);
  push_work(L, &s);
  push_cores(L, run, &s);
  lua_setfield(L, -2, "core");
}

/* ---- Summary ------------------------------------------------------------------------------- */

static void add(luaL_Buffer *b, const char *fmt, ...) ISA_PRINTF(2, 3);
/* One line at a time: 200 bytes are more than any of them has. */
static void add(luaL_Buffer *b, const char *fmt, ...) {
  char line[200];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(line, sizeof line, fmt, ap);
  va_end(ap);
  luaL_addstring(b, line);
}

/* A count with the prefix that keeps three digits before the point. */
static void add_scaled(luaL_Buffer *b, double v, const char *unit) {
  static const char *const prefix[] = {"", "k", "M", "G", "T"};
  unsigned i = 0;
  /* Beyond T the number just grows. */
  for (; v >= 1000 && i < 4; i++) v /= 1000;
  add(b, i ? "%.2f %s%s" : "%.0f %s%s", v, prefix[i], unit);
}

/* Simulated time counts femtoseconds. */
static void add_time(luaL_Buffer *b, soma_time t) {
  double ns = (double)t * 1e-6;
  /* Each unit until it would need five digits before the point. */
  if (ns < 1e4)
    add(b, "%.0f ns", ns);
  else if (ns < 1e7)
    add(b, "%.2f us", ns * 1e-3);
  else
    add(b, "%.2f ms", ns * 1e-6);
}

static double share(soma_time part, soma_time whole) {
  return whole ? 100 * (double)part / (double)whole : 0;
}

/* What all engines read and wrote in a memory, and that against HBM's bytes. */
static void add_traffic(luaL_Buffer *b, const char *memory, const soma_stats *s,
                        const uint64_t *read, const uint64_t *written) {
  uint64_t in = 0, out = 0, hbm = s->hbm_read_bytes + s->hbm_write_bytes;
  for (int e = 0; e < SOMA_ENGINES; e++) {
    /* By engine, since engines read in parallel. */
    in += read[e];
    out += written[e];
  }
  /* A memory that nobody used has no line. */
  if (!s->time || in + out == 0) return;
  add(b, "\n%s          ", memory);
  add_scaled(b, (double)in, "B read, ");
  add_scaled(b, (double)out, "B written by engines, ");
  add_scaled(b, (double)(in + out) / ((double)s->time * 1e-15), "B/s");
  /* How much the program makes of each byte that it fetches. */
  if (hbm) add(b, ", %.1f times HBM's", (double)(in + out) / (double)hbm);
}

static void add_dma(luaL_Buffer *b, const soma_stats *s, const soma_figures *f) {
  add(b, "dma           %" PRIu64 " transfers, ", s->dma_transfers);
  add_scaled(b, (double)s->dma_bytes, "B");
  /* Rates need a time. */
  if (!s->time) return;
  luaL_addstring(b, ", ");
  add_scaled(b, (double)s->dma_bytes / ((double)s->time * 1e-15), "B/s");
  add(b, ", active %.1f%%, ", 100 * f->dma_active);
  /* The usual number as a word, since it is not the run's own. */
  if (s->dma_engines == ISA_NDMA)
    luaL_addstring(b, "sixteen");
  else
    add(b, "%" PRIu32, s->dma_engines);
  /* An average over all engines of all cores. */
  add(b, " engines busy %.1f%%, ", share(s->dma_busy, s->time) / s->dma_engines / s->cores);
  add_scaled(b, f->dma_average_bytes, "B a transfer");
  luaL_addstring(b, "\nhbm           ");
  add_scaled(b, (double)s->hbm_read_bytes, "B read, ");
  add_scaled(b, (double)s->hbm_write_bytes, "B written, ");
  add(b, "MBU %.1f%% of ", 100 * f->mbu);
  add_scaled(b, (double)s->peak_hbm, "B/s");
}

/* The peak is that of the types the run multiplied, named by what it costs against 16 bits. */
static void add_roofline(luaL_Buffer *b, const soma_stats *s, const soma_figures *f) {
  /* Above the ridge the arithmetic is the limit, below it the memory. */
  bool memory = f->attainable_flops < f->peak_flops;
  add(b, "\npe            MFU %.1f%%, HFU %.1f%%: ", 100 * f->mfu, 100 * f->hfu);
  add_scaled(b, f->model_flops, "flop/s of ");
  add_scaled(b, f->peak_flops, "flop/s");
  add(b, " (%.2f of the 16-bit peak)", f->peak_flops / (double)s->peak_flops);
  /* Without traffic to HBM there is no intensity. */
  if (s->hbm_read_bytes + s->hbm_write_bytes == 0) return;
  add(b, "\nroofline      %.1f flop/B, ridge at %.1f: %s bound, at most ", f->intensity, f->ridge,
      memory ? "memory" : "compute");
  add_scaled(b, f->attainable_flops, "flop/s");
}

/* The engines of a core; of two, with its number before them. */
static void add_engines(luaL_Buffer *b, const soma_stats *s, int core) {
  soma_figures f;
  soma_stats_figures(s, &f, sizeof f);
  for (int e = 0; e < SOMA_ENGINES; e++) {
    const soma_engine_stats *en = &s->engine[e];
    /* Engines without an instruction have no row. */
    if (en->instructions == 0) continue;
    if (core >= 0)
      add(b, "%d ", core);
    else
      luaL_addstring(b, "  ");
    add(b, "%-8s %6.1f%% %7.1f%% %13" PRIu64 " %10" PRIu64 " %10.1f%%\n",
        soma_engine_name((soma_engine)e), 100 * f.active[e], share(en->waiting, s->time),
        en->instructions, en->data_instructions, 100 * f.utilization[e]);
  }
}

/* run:summary(): simulated time, each engine's share, bytes moved, host time. */
int lb_run_summary(lua_State *L) {
  const lb_run *run = lb_check_run(L, 1);
  soma_stats s = lb_run_stats(run);
  soma_figures f;
  luaL_Buffer b;
  soma_stats_figures(&s, &f, sizeof f);
  /* A run that was detached has no machine to ask. */
  const char *target = run->core && run->core->m ? soma_target(run->core->m) : NULL;
  luaL_buffinit(L, &b);
  if (target && strchr(target, ' ')) add(&b, "machine       %s\n", target); /* hypothetical */
  luaL_addstring(&b, "simulated time  ");
  add_time(&b, s.time);
  luaL_addstring(&b, "\nengine        busy  waiting  instructions  data path  utilised\n");
  for (unsigned k = 0; k < s.cores; k++) {
    soma_stats of = lb_run_core_stats(run, k);
    add_engines(&b, &of, s.cores > 1 ? (int)k : -1);
  }
  add_dma(&b, &s, &f);
  /* Only runs with matmuls have a roofline. */
  if (s.flops) add_roofline(&b, &s, &f);
  add(&b, "\ntouched       sbuf %.1f of %.0f KiB per partition, psum %.1f of %.0f",
      (double)s.sbuf_touched / 1024, (double)s.sbuf_size / 1024, (double)s.psum_touched / 1024,
      (double)s.psum_size / 1024);
  add_traffic(&b, "sbuf", &s, s.sbuf_read, s.sbuf_written);
  add_traffic(&b, "psum", &s, s.psum_read, s.psum_written);
  if (s.twins)
    add(&b,
        "\ntwins         %" PRIu64 " pairs of transfers are no race, as both cores write the same",
        s.twins);
  luaL_addstring(&b, "\nlaunch        ");
  add_time(&b, s.launch);
  luaL_addstring(&b, ", not part of the simulated time");
  luaL_addstring(&b, "\nhost-device   ");
  add_scaled(&b, (double)s.host_to_device, "B in, ");
  add_scaled(&b, (double)s.device_to_host, "B out, ");
  add_time(&b, s.host);
  add(&b, "\nhost          %.3f s, ", s.host_seconds);
  add_scaled(&b, s.host_seconds > 0 ? (double)s.instructions / s.host_seconds : 0,
             "instructions/s");
  luaL_pushresult(&b);
  return 1;
}

/* ---- Faults -------------------------------------------------------------------------------- */

const char *lb_fault_kind(soma_status s) {
  switch (s) {
  case SOMA_DEADLOCK: return "deadlock";
  case SOMA_LIMIT: return "limit";
  case SOMA_STOPPED: return "stopped";
  case SOMA_NOMEM: return "memory";
  case SOMA_CHECK: return "check";
  default: return "fault";
  }
}

void lb_push_fault(lua_State *L, const soma_run *r) {
  soma_fault f;
  /* Filled in also when the run has not failed: with empty fields. */
  soma_run_fault(r, &f);
  /* What is not known, such as the line of a program made from bytes, is left out: nil. */
  lua_createtable(L, 0, 9);
  lb_set_words(L, "kind", lb_fault_kind(f.status));
  lb_set_words(L, "text", f.text);
  lb_set_words(L, "instruction", f.instruction);
  lb_set_words(L, "file", f.file);
  lb_set_ns(L, "time_ns", f.time);
  if (f.line) lb_set_count(L, "line", f.line);
  /* Faults of the host have no engine. */
  if (f.engine >= 0) {
    lb_set_words(L, "engine", soma_engine_name((soma_engine)f.engine));
    lb_set_count(L, "pc", f.pc);
    /* Core 0 is left out, as in messages. */
    if (soma_run_fault_core(r)) lb_set_count(L, "core", soma_run_fault_core(r));
  }
  if (f.dma_engine >= 0) lb_set_count(L, "dma_engine", (uint64_t)f.dma_engine);
  luaL_setmetatable(L, FAULT_CLASS);
}

/* run.findings: what the checks found, oldest first, the first 64. */
void lb_push_findings(lua_State *L, const soma_run *r) {
  soma_finding f;
  lua_newtable(L);
  for (uint32_t i = 0; r != NULL && soma_run_finding(r, i, &f) == SOMA_OK; i++) {
    /* By name, so that scripts can compare it with the option. */
    lua_createtable(L, 0, 8);
    lb_set_words(L, "check", soma_check_name(f.check));
    lb_set_words(L, "engine", soma_engine_name(f.engine));
    lb_set_count(L, "core", soma_run_finding_core(r, i));
    lua_pushlstring(L, f.text, strlen(f.text) - 1); /* without the newline */
    lua_setfield(L, -2, "text");
    lb_set_words(L, "file", f.file);
    if (f.line) lb_set_count(L, "line", f.line);
    lb_set_count(L, "pc", f.pc);
    lb_set_ns(L, "time_ns", f.time);
    lua_seti(L, -2, (lua_Integer)i + 1);
  }
}

/* run.schedules: of a run with schedule = "all" that has ended, what all of them do; else nil. */
void lb_push_schedules(lua_State *L, soma_run *r) {
  static const char *const verdicts[] = {"same", "depends", "not decided"};
  soma_schedules s;
  /* A run that is gone has no schedules. */
  soma_status status = r != NULL ? soma_run_schedules(r, &s, sizeof s) : SOMA_ARG;
  if (status == SOMA_NOMEM) luaL_error(L, "out of memory");
  if (status != SOMA_OK) {
    lua_pushnil(L);
    return;
  }
  lua_createtable(L, 0, 3);
  lb_set_words(L, "verdict", verdicts[s.verdict]);
  lb_set_count(L, "states", s.states);
  lb_set_words(L, "text", s.text);
}

/* "file:line: fault: text", then the instruction, its engine, pc and time. */
static int fault_tostring(lua_State *L) {
  /* A script may have changed the table, so each field is looked at. */
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  static const char *const keys[] = {"file", "line", "kind", "text", "instruction", "engine", "pc"};
  for (int i = 0; i < 7; i++) lua_getfield(L, 1, keys[i]);
  const char *kind = lua_tostring(L, 4);
  if (kind != NULL && strcmp(kind, "check") == 0) { /* a finding names its places itself */
    lua_pushvalue(L, 5);
    return 1;
  }
  /* What is missing is left out of the text. */
  const char *file = lua_tostring(L, 2), *insn = lua_tostring(L, 6), *engine = lua_tostring(L, 7);
  luaL_Buffer b;
  lua_getfield(L, 1, "time_ns");
  lua_Number at = lua_tonumber(L, -1);
  /* Only of core 1, see lb_push_fault. */
  bool second = lua_getfield(L, 1, "core") == LUA_TNUMBER;
  luaL_buffinit(L, &b);
  if (file != NULL) {
    luaL_addstring(&b, file);
    add(&b, ":%lld: ", (long long)lua_tointeger(L, 3));
  }
  luaL_addstring(&b, lua_isnil(L, 4) ? "fault" : lua_tostring(L, 4));
  luaL_addstring(&b, ": ");
  luaL_addstring(&b, lua_isnil(L, 5) ? "" : lua_tostring(L, 5));
  if (insn != NULL) {
    luaL_addstring(&b, "\n  ");
    luaL_addstring(&b, insn);
  }
  if (engine != NULL)
    add(&b, "\n  on %s%s, pc %lld, at %.0f ns", second ? "core 1 " : "", engine,
        (long long)lua_tointeger(L, 8), at);
  else
    add(&b, "\n  at %.0f ns", at);
  luaL_pushresult(&b);
  return 1;
}

void lb_open_stats(lua_State *L) {
  static const luaL_Reg meta[] = {{"__tostring", fault_tostring}, {NULL, NULL}};
  luaL_newmetatable(L, FAULT_CLASS);
  luaL_setfuncs(L, meta, 0);
  lua_pop(L, 1);
}
