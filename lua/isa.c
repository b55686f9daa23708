/* soma.isa: the ISA's tables as Lua tables, made anew at each load of the module. */

#include "module.h"

#include "../isa/instance.h"

/* Sets key to the sequence of the engines' names in a mask.
 * The order is that of the table of engines. */
static void set_engines(lua_State *L, unsigned mask) {
  lua_newtable(L);
  for (unsigned e = 0, n = 0; e < ISA_NENGINES; e++) {
    if (!(mask & 1u << e)) continue;
    lua_pushstring(L, isa_engines[e].name);
    lua_rawseti(L, -2, ++n);
  }
  lua_setfield(L, -2, "engines");
}

/* A field: name, kind, mode ("positional", "keyword", "optional"), and of a pattern its dims,
 * reads, writes and memories, and whether it is read or written in part; of an enumeration its
 * items. */
static void push_field(lua_State *L, const isa_field *f) {
  static const char *const modes[] = {"positional", "keyword", "optional"};
  static const char *const kinds[] = {
#define KIND(name, type, bytes) #name,
      ISA_KINDS(KIND)
#undef KIND
  };
  lua_createtable(L, 0, 6);
  lb_set_text(L, "name", f->name);
  lb_set_text(L, "kind", kinds[f->kind]);
  lb_set_text(L, "mode", modes[f->mode]);
  /* Its place in the record, in bytes. */
  lb_set_count(L, "at", f->at);
  /* What a pattern may do, bit by bit. */
  if (f->kind == ISA_K_AP || f->kind == ISA_K_APS) {
    static const struct {
      const char *name;
      unsigned bit;
    } flags[] = {{"reads", AP_R},        {"writes", AP_W},     {"sbuf", AP_S},
                 {"psum", AP_M},         {"hbm", AP_H},        {"column", AP_COL},
                 {"element", AP_ELEM},   {"indirect", AP_IND}, {"gather", AP_GATHER},
                 {"in_part", AP_IN_PART}};
    lb_set_count(L, "dims", f->arg & AP_DIMS);
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
      lb_set_flag(L, flags[i].name, (f->arg & flags[i].bit) != 0);
  }
  /* In the order of their codes. */
  if (f->kind == ISA_K_ENUM) {
    const char *item;
    lua_newtable(L);
    for (unsigned i = 0; (item = isa_set_item(f->arg, i)) != NULL; i++) {
      lua_pushstring(L, item);
      lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "items");
  }
}

/* Everything that the table has, for scripts that look for instructions. */
static void push_instruction(lua_State *L, const isa_op_row *row) {
  const isa_form *form = &isa_forms[row->form];
  lua_createtable(L, 0, 10);
  lb_set_text(L, "name", row->name);
  lb_set_text(L, "profile_name", row->profile_name);
  lb_set_text(L, "meaning", row->meaning);
  lb_set_text(L, "form", form->name);
  /* Instructions without a rule for types have no such text. */
  if (isa_rule_types(row->rule)) lb_set_text(L, "types", isa_rule_types(row->rule));
  lb_set_text(L, "status", row->status == ISA_DONE ? "done" : "planned");
  lb_set_count(L, "number", row->number);
  lb_set_count(L, "gen", row->gen);
  set_engines(L, row->engines);
  lua_createtable(L, form->nfields, 0);
  for (unsigned i = 0; i < form->nfields; i++) {
    push_field(L, &form->fields[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  lua_setfield(L, -2, "fields");
}

/* On bits, on numbers, or on both. */
static void push_aluop(lua_State *L, const isa_aluop_row *row) {
  lua_createtable(L, 0, 7);
  lb_set_text(L, "name", row->name);
  lb_set_text(L, "class",
              row->cls == ISA_OP_BIT     ? "bit"
              : row->cls == ISA_OP_ARITH ? "arith"
                                         : "both");
  lb_set_count(L, "arity", row->arity);
  lb_set_count(L, "gen", row->gen);
  set_engines(L, row->engines);
  lb_set_flag(L, "reduces", row->reduces);
  lb_set_flag(L, "in_hardware", row->in_hardware);
}

/* In the order of the classes' numbers, which begin at 1. */
static void push_dtype(lua_State *L, unsigned d) {
  static const char *const classes[] = {"?", "uint", "int", "float", "packed", "bool"};
  lua_createtable(L, 0, 4);
  lb_set_text(L, "name", isa_dtypes[d].name);
  lb_set_text(L, "class", classes[isa_dtypes[d].cls]);
  lb_set_count(L, "bytes", isa_dtypes[d].bytes);
  lb_set_count(L, "lanes", isa_dtypes[d].lanes);
}

static void push_target(lua_State *L, const isa_target *t) {
  lua_createtable(L, 0, 13);
  lb_set_text(L, "name", t->name);
  lb_set_count(L, "gen", (uint64_t)t->gen);
  lb_set_count(L, "sbuf_bytes", t->sbuf_bytes);
  lb_set_count(L, "sbuf_usable", t->sbuf_usable);
  lb_set_count(L, "cores", t->cores);
  lb_set_count(L, "hbm_stacks", t->hbm_stacks);
  lb_set_count(L, "hbm_gib", t->hbm_gib);
  lb_set_count(L, "dma_engines", t->dma_engines);
  lb_set_count(L, "dma_rings", t->dma_rings);
  lb_set_count(L, "mm_fp32", t->mm_fp32);
  lb_set_count(L, "mm_bf16", t->mm_bf16);
  lua_createtable(L, 0, ISA_NENGINES);
  /* Clocks by engine, in kHz. */
  for (unsigned e = 0; e < ISA_NENGINES; e++) lb_set_count(L, isa_engines[e].name, t->khz[e]);
  lua_setfield(L, -2, "khz");
  lb_set_count(L, "core_dma_engines", t->dma);
  lb_set_count(L, "psum_bytes", t->psum_bytes);
  lb_set_flag(L, "hwdge", t->hwdge);
  lb_set_flag(L, "hypothetical", t->hypothetical);
}

/* Instances name their targets. */
static void push_instances(lua_State *L) {
  const isa_instance *x;
  lua_newtable(L);
  for (unsigned i = 0; (x = isa_instance_at(i)) != NULL; i++) {
    lua_createtable(L, 0, 5);
    lb_set_text(L, "name", x->name);
    lb_set_text(L, "target", x->target->name);
    lb_set_count(L, "devices", x->devices);
    lb_set_count(L, "cores", isa_instance_cores(x));
    lb_set_count(L, "efa", x->efa);
    lua_rawseti(L, -2, i + 1);
  }
}

/* soma.isa.target(text): the row of a target, or of a hypothetical machine.
 * Hypothetical machines are described by a text. */
static int isa_target_named(lua_State *L) {
  size_t n;
  const char *text = luaL_checklstring(L, 1, &n);
  isa_target t;
  isa_error e;
  if (!isa_target_read(text, n, &t, &e)) return luaL_error(L, "%s", e.text);
  push_target(L, &t);
  return 1;
}

/* Pushes {instructions, aluops, actfns, dtypes, targets, instances}, sequences in table order, and
 * target. */
void lb_push_isa(lua_State *L) {
  lua_createtable(L, 0, 6);
  push_instances(L);
  lua_setfield(L, -2, "instances");
  lua_createtable(L, ISA_NOPS, 0);
  for (int i = 0; i < ISA_NOPS; i++) {
    push_instruction(L, &isa_ops[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "instructions");
  lua_createtable(L, ISA_NALUOPS, 0);
  for (int i = 0; i < ISA_NALUOPS; i++) {
    push_aluop(L, &isa_aluops[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "aluops");
  lua_createtable(L, ISA_NACTFNS, 0);
  for (int i = 0; i < ISA_NACTFNS; i++) {
    lua_createtable(L, 0, 4);
    lb_set_text(L, "name", isa_actfns[i].name);
    lb_set_count(L, "gen", isa_actfns[i].gen);
    lb_set_flag(L, "table", isa_actfns[i].table);
    lb_set_number(L, "low", (lua_Number)isa_actfns[i].lo);
    lb_set_number(L, "high", (lua_Number)isa_actfns[i].hi);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "actfns");
  lua_createtable(L, ISA_NDTYPES, 0);
  /* Number 0 is no type. */
  for (unsigned d = 1; d < ISA_NDTYPES; d++) {
    push_dtype(L, d);
    lua_rawseti(L, -2, (lua_Integer)d);
  }
  lua_setfield(L, -2, "dtypes");
  lua_createtable(L, ISA_NTARGETS, 0);
  for (int i = 0; i < ISA_NTARGETS; i++) {
    push_target(L, &isa_targets[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "targets");
  lua_pushcfunction(L, isa_target_named);
  lua_setfield(L, -2, "target");
}
