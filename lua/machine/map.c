/* prog:instructions: which line and text each instruction has; names of semaphores and queues. */
#include <ctype.h>
#include <string.h>

#include "machine.h"

/* What prog:instructions is asked for; everything that is set has to hold. */
typedef struct wanted {
  unsigned core;
  int engine; /* -1: all */
  const char *file, *label;
  const char *heads;          /* the text of the line, "": unknown; NULL: all instructions */
  lua_Integer line, pc, most; /* -1: any; how many more */
} wanted;

/* "macro LOAD from a.s:30" and so on, innermost first. */
static void push_calls(lua_State *L, const soma_program *p, uint32_t call) {
  soma_macro_call c;
  lua_newtable(L);
  /* Numbered from 1; 0 as `outer` ends the loop. */
  for (lua_Integer n = 1; soma_program_call(p, call, &c, sizeof c) == SOMA_OK; call = c.outer) {
    const char *file = c.file != NULL ? c.file : "?";
    if (c.round > 0)
      lua_pushfstring(L, "round %d of %%rep at %s:%d", (int)c.round, file, (int)c.line);
    else
      lua_pushfstring(L, "macro %s from %s:%d", c.name, file, (int)c.line);
    lua_rawseti(L, -2, n++);
  }
}

/* One that was found, with all that a debugger shows of it. */
static void push_instruction(lua_State *L, const soma_program *p, unsigned core,
                             const soma_instruction *i) {
  char *text;
  size_t n;
  lua_createtable(L, 0, 9);
  lb_set_count(L, "core", core);
  lb_set_text(L, "engine", soma_engine_name(i->engine));
  lb_set_count(L, "pc", i->pc);
  lb_set_text(L, "name", i->name);
  lb_set_text(L, "label", i->label);
  if (i->file != NULL) {
    lb_set_text(L, "file", i->file);
    lb_set_count(L, "line", i->line);
  }
  /* A branch has a target, which may have no label. */
  if (i->target >= 0) lb_set_count(L, "target", (uint64_t)i->target);
  if (i->call > 0) {
    push_calls(L, p, i->call);
    lua_setfield(L, -2, "calls");
  }
  if (soma_instruction_text(p, core, i->engine, i->pc, &text, &n) != SOMA_OK)
    luaL_error(L, "instructions: out of memory");
  lua_pushlstring(L, text, n);
  /* The text comes from malloc; Lua gets a copy. */
  soma_bytes_free(text);
  lua_setfield(L, -2, "text");
}

/* Labels are compared whole. */
static bool fits(const wanted *w, const soma_instruction *i) {
  return w->label == NULL || (i->label != NULL && strcmp(i->label, w->label) == 0);
}

/* Whether the text of a line is that instruction, and not a line of a kernel that stands for it. */
static bool reads_as(const char *text, const char *name) {
  /* A letter, digit or underscore would go on with another mnemonic. */
  size_t n = strlen(name);
  return strncmp(text, name, n) == 0 && text[n] != '_' && !isalnum((unsigned char)text[n]);
}

/* Whether i is among the first instructions of a line: head is the one before it that was, NULL in
 * another stretch of the code. A line of a kernel in an unrolled loop begins once more where its
 * first instruction comes again. */
static bool begins(const wanted *w, const soma_instruction *i, const char *head) {
  return w->heads == NULL || head == NULL ||
         (w->heads[0] != '\0' && i->call == 0 && strcmp(i->name, head) == 0 &&
          !reads_as(w->heads, i->name));
}

/* Adds those of engine e to the table on top. */
static void add_engine(lua_State *L, const soma_program *p, wanted *w, soma_engine e) {
  soma_instruction i;
  const char *head = NULL;
  /* Code of one engine and core at a time. */
  uint32_t last = 0, n = soma_program_instructions(p, w->core, e), pc = 0, until = n;
  if (w->pc >= 0) {
    /* A pc beyond the code finds nothing.
     * Otherwise the loop sees this one pc. */
    pc = w->pc < (lua_Integer)n ? (uint32_t)w->pc : n;
    until = pc < n ? pc + 1 : n;
  }
  for (; pc < until && w->most > 0; pc++) {
    /* Only the instructions of that line.
     * The next instruction of that line, or the end. */
    if (w->line >= 0) pc = soma_program_line(p, w->core, e, w->file, (uint32_t)w->line, pc);
    if (pc >= until || soma_program_instruction(p, w->core, e, pc, &i, sizeof i) != SOMA_OK) return;
    if (!fits(w, &i)) continue;
    /* The code between them is of other lines. */
    if (last + 1 != pc) head = NULL;
    last = pc;
    if (!begins(w, &i, head)) continue;
    head = i.name;
    /* As soon as there are enough, the loop ends. */
    w->most--;
    push_instruction(L, p, w->core, &i);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
  }
}

/* prog:instructions{engine=, pc=, file=, line=, label=, core=, heads=, most=}: a sequence. */
int lb_program_instructions(lua_State *L) {
  static const char *const known[] = {"engine", "pc",    "file", "line", "label",
                                      "core",   "heads", "most", NULL};
  lua_settop(L, 2);
  const lb_program *p = lb_check_program(L, 1);
  if (!lua_isnil(L, 2)) luaL_checktype(L, 2, LUA_TTABLE);
  lb_options(L, 2, "instructions", known);
  wanted w = {.engine = -1,
              /* core=0 unless the options say 1. */
              .core = (unsigned)lb_integer(L, 2, "instructions", "core", 0, ISA_MAX_CORES - 1, 0),
              .file = lb_string(L, 2, "instructions", "file"),
              .label = lb_string(L, 2, "instructions", "label"),
              .heads = lb_string(L, 2, "instructions", "heads"),
              .most = lb_integer(L, 2, "instructions", "most", 1, LUA_MAXINTEGER, LUA_MAXINTEGER),
              .line = lb_integer(L, 2, "instructions", "line", 0, UINT32_MAX, -1),
              .pc = lb_integer(L, 2, "instructions", "pc", 0, UINT32_MAX, -1)};
  const char *engine = lb_string(L, 2, "instructions", "engine");
  if (engine != NULL && (w.engine = lb_sequencer_named(engine)) < 0)
    return luaL_error(L, "instructions: " LB_NO_SEQUENCER, engine);
  /* A line means nothing without its file. */
  if ((w.line >= 0) != (w.file != NULL))
    return luaL_error(L, "instructions: options 'file' and 'line' go together");
  lua_newtable(L);
  /* Engines in the order of the machine, CC sequencers last. */
  for (int e = 0; soma_engine_name((soma_engine)e) != NULL; e++)
    if (w.engine < 0 || w.engine == e) add_engine(L, p->p, &w, (soma_engine)e);
  return 1;
}

/* prog:loop(engine, pc[, core]): the first and the last pc of the innermost loop around it; nil. */
int lb_program_loop(lua_State *L) {
  const lb_program *p = lb_check_program(L, 1);
  soma_engine e = (soma_engine)lb_sequencer(L, 2);
  lua_Integer pc = luaL_checkinteger(L, 3), core = luaL_optinteger(L, 4, 0);
  uint32_t top, end;
  /* Nothing rather than an error: a debugger asks about any place. */
  if (pc < 0 || pc > UINT32_MAX || core < 0 || core >= ISA_MAX_CORES) return 0;
  if (soma_program_loop(p->p, (unsigned)core, e, (uint32_t)pc, &top, &end) != SOMA_OK) return 0;
  lua_pushinteger(L, top);
  lua_pushinteger(L, end);
  return 2;
}

static int push_names(lua_State *L, const char *what,
                      const char *(*name)(const soma_program *, unsigned, uint32_t)) {
  enum { MOST = 256 };
  lua_settop(L, 2);
  const lb_program *p = lb_check_program(L, 1);
  unsigned core = lb_core_number(L, 2, what);
  lua_newtable(L);
  /* Numbers without a name are left out. */
  for (uint32_t i = 0, n = 0; i < MOST; i++) {
    const char *s = name(p->p, core, i);
    if (s == NULL) continue;
    lua_createtable(L, 0, 2);
    lb_set_text(L, "name", s);
    lb_set_count(L, "number", i);
    lua_rawseti(L, -2, (lua_Integer)++n);
  }
  return 1;
}

/* prog:semaphores([{core = 1}]) and prog:queues(...): sequences of {name, number}. */
int lb_program_semaphores(lua_State *L) {
  return push_names(L, "semaphores", soma_program_semaphore_name);
}
int lb_program_queues(lua_State *L) { return push_names(L, "queues", soma_program_queue_name); }
