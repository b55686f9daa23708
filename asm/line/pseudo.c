/* Pseudo-instructions from their table: slots whose values go to two instructions. */
#include "stmt.h"

#include <string.h>

/* The same table three times: numbers, names, operands. */
enum pseudo {
#define PSEUDO(id, name, first, second) PS_##id,
#define READS(name, reader) PS_reads_##name,
#include "pseudo.def"
  NPSEUDOS
};

/* op: the two instructions; the same one twice is a single one under another name. */
static const struct {
  const char *name;
  bool reads; /* an instruction's own name: only with reduce_res= */
  uint16_t op[AS_MAX_PARTS];
} pseudos[NPSEUDOS] = {
#define PSEUDO(id, name, first, second) {#name, false, {ISA_OP_##first, ISA_OP_##second}},
#define READS(name, reader) {#name, true, {ISA_OP_##name, ISA_OP_##reader}},
#include "pseudo.def"
};

static const struct {
  uint8_t pseudo, mode, part;
  const char *name, *field;
} operands[] = {
#define OPERAND(id, name, mode, part, field) {PS_##id, ISA_MODE_##mode, part, #name, #field},
#include "pseudo.def"
};

int as_pseudo_find(const char *name, size_t n) {
  for (int i = 0; i < NPSEUDOS; i++)
    if (strlen(pseudos[i].name) == n && memcmp(pseudos[i].name, name, n) == 0) return i;
  return -1;
}

void as_pseudo_near(as_near *w) {
  for (int i = 0; i < NPSEUDOS; i++) as_near_try(w, pseudos[i].name);
}

/* READS rows are instructions' own names: they are not listed as others. */
const char *as_pseudo_name(int ps) {
  return ps < NPSEUDOS && !pseudos[ps].reads ? pseudos[ps].name : NULL;
}

int as_pseudo_of(int op, const as_cur *c) {
  /* Only a data path has registers that can be read. */
  if (isa_ops[op].runs != ISA_RUNS_PATH) return -1;
  for (int i = 0; i < NPSEUDOS; i++) {
    /* The instruction has its own name in the table. */
    if (!pseudos[i].reads || pseudos[i].op[0] != op) continue;
    for (as_cur at = *c; !as_at_end(&at); at.t++) /* reduce_res, and reduce_res_negate. */
      if (as_at_keyword(&at) && strncmp(at.t->text, "reduce_res", 10) == 0) return i;
  }
  return -1;
}

/* ---- Slots -------------------------------------------------------------------------------- */

static void add_slot(as_stmt *st, const char *name, unsigned mode, unsigned part,
                     const isa_field *f) {
  /* owner: the slot that is written; the other one copies it. */
  unsigned n = st->nslots, owner = n;
  /* Equal names follow one another: one value for both. */
  if (n > 0 && strcmp(st->slot[n - 1].name, name) == 0) owner = n - 1;
  st->slot[st->nslots++] = (as_slot){
      .f = f, .name = name, .mode = (uint8_t)mode, .part = (uint8_t)part, .owner = (uint8_t)owner};
}

/* The instruction's operands, then those of its reader.
 * An instruction that adds into registers, and one that reads them out. */
static void reads_slots(int ps, as_stmt *st) {
  const isa_form *f = isa_form_of(pseudos[ps].op[0]);
  unsigned reader = pseudos[ps].op[1];
  for (unsigned i = 0; i < f->nfields; i++)
    add_slot(st, f->fields[i].name, f->fields[i].mode, 0, &f->fields[i]);
  add_slot(st, "reduce_res", ISA_MODE_K, 1, isa_field_named(reader, "dst"));
  add_slot(st, "reduce_res_negate", ISA_MODE_D, 1, isa_field_named(reader, "negate"));
}

void as_pseudo_open(int ps, as_stmt *st) {
  st->nparts = AS_MAX_PARTS;
  for (unsigned i = 0; i < AS_MAX_PARTS; i++) st->part[i].op = pseudos[ps].op[i];
  /* Another name for one instruction. */
  if (pseudos[ps].op[0] == pseudos[ps].op[1]) st->nparts = 1;
  if (pseudos[ps].reads) reads_slots(ps, st);
  for (unsigned i = 0; i < sizeof operands / sizeof *operands; i++)
    if (operands[i].pseudo == ps)
      add_slot(st, operands[i].name, operands[i].mode, operands[i].part,
               isa_field_named(pseudos[ps].op[operands[i].part], operands[i].field));
}

static as_slot *slot_of(as_stmt *st, const char *name) {
  for (unsigned i = 0; i < st->nslots; i++)
    if (strcmp(st->slot[i].name, name) == 0 && st->slot[i].owner == i) return &st->slot[i];
  return NULL;
}

/* ---- What no field says ------------------------------------------------------------------- */

static const isa_ap *pattern(as_job *j, uint32_t index) {
  return index ? &as_program(j)->cores[j->unit->core].aps[index - 1] : NULL;
}

/* The two operands of a matmul contract over their partitions. */
static bool same_rows(as_job *j, as_stmt *st, const char *name, const char *first, uint32_t a,
                      uint32_t b) {
  const isa_ap *x = pattern(j, a), *y = pattern(j, b);
  /* Compared here: each instruction alone does not see the other's operand. */
  if (!x || !y || x->nparts == y->nparts) return true; /* the rules report a missing one */
  const as_slot *s = slot_of(st, name);
  return as_error(
      j, s->pos, s->span,
      "%s has %u partitions, but %s has %u: they must be equal, since the product sums over "
      "partitions",
      name, y->nparts, first, x->nparts);
}

static bool is_wide(unsigned dtype) { return dtype == ISA_float32 || dtype == ISA_tfloat32; }

/* 32-bit types go only with 32-bit types: one line here is the load and the product.
 * The verifier sees the load and the product apart, and could only tell it when it
 * runs. */
static bool same_width(as_job *j, as_stmt *st, uint32_t a, uint32_t b) {
  const isa_ap *x = pattern(j, a), *y = pattern(j, b);
  if (!x || !y || is_wide(x->dtype) == is_wide(y->dtype)) return true;
  const as_slot *s = slot_of(st, "moving");
  return as_error(j, s->pos, s->span,
                  "moving is %s, stationary is %s: a 32-bit type needs another on the other side",
                  isa_dtypes[y->dtype].name, isa_dtypes[x->dtype].name);
}

/* An identity matrix of as many rows and columns as src has partitions. */
static bool finish_transpose(as_job *j, as_stmt *st) {
  uint32_t src = st->part[0].u.LDWEIGHTS.src, identity = st->part[1].u.MATMUL.src;
  const isa_ap *ap = pattern(j, identity);
  if (!same_rows(j, st, "identity", "src", src, identity)) return false;
  /* The array writes the transpose, and sums nothing. */
  st->part[1].u.MATMUL.acc = ISA_ACC_write;
  st->part[1].u.MATMUL.transpose = ISA_BOOL_true;
  /* [K, K]: a row of each partition as long as there are partitions. */
  if (!ap || isa_ap_elems(ap) == ap->nparts) return true;
  const as_slot *s = slot_of(st, "identity");
  as_error(j, s->pos, s->span, "identity has %u partitions of %llu elements; it must be square",
           ap->nparts, (unsigned long long)isa_ap_elems(ap));
  return false;
}

/* One block: transpose32 alone would transpose many, each in its place. */
static bool one_block(as_job *j, as_stmt *st) {
  const isa_ap *src = pattern(j, st->part[0].u.UNARY.src);
  /* Without src the rules report it. */
  if (!src || (src->nparts <= 32 && isa_ap_elems(src) <= 32)) return true;
  const as_slot *s = slot_of(st, "src");
  as_error(j, s->pos, s->span,
           "src has %u partitions of %llu elements; on vector nc_transpose takes 32 of 32",
           src->nparts, (unsigned long long)isa_ap_elems(src));
  as_note(j, (as_pos){0}, "transpose32 transposes each block of 32 x 32 in its place");
  return false;
}

static uint8_t *reduce_of(isa_insn *in) {
  const isa_field *f = isa_field_named(in->op, "reduce");
  return f ? isa_member(in, f) : NULL;
}

/* With a result, reduce is reset_reduce unless it was given; without one the reader is dropped,
 * and its update moves to the instruction. */
static void finish_reads(as_stmt *st) {
  const as_slot *res = slot_of(st, "reduce_res"), *reduce = slot_of(st, "reduce");
  if (!res->seen) {
    st->nparts = 1;
    st->part[0].upd = st->part[1].upd;
  } else if (!reduce || !reduce->seen) {
    *reduce_of(&st->part[0]) = ISA_CMD_reset_reduce;
  }
}

bool as_pseudo_finish(as_job *j, int ps, as_stmt *st) {
  isa_insn *a = &st->part[0], *b = &st->part[1];
  switch (ps) {
  case PS_nc_matmul:
    return same_rows(j, st, "moving", "stationary", a->u.LDWEIGHTS.src, b->u.MATMUL.src) &&
           same_width(j, st, a->u.LDWEIGHTS.src, b->u.MATMUL.src);
  case PS_nc_matmul_mx:
    return same_rows(j, st, "moving", "stationary", a->u.LDWEIGHTS_MX.src, b->u.MATMUL_MX.src);
  case PS_nc_transpose: return finish_transpose(j, st);
  case PS_transpose_on_vector: return one_block(j, st);
  case PS_activation:
  case PS_activation_reduce: finish_reads(st); return true;
  default:
    if (pseudos[ps].reads) finish_reads(st);
    return true;
  }
}

/* On vector it is another instruction, under the same name. */
int as_pseudo_here(as_job *j, int ps) {
  bool vector = j->unit->section < AS_NSECTIONS && as_engine_of(j->unit->section) == ISA_ENG_vector;
  return ps == PS_nc_transpose && vector ? PS_transpose_on_vector : ps;
}

/* ---- Groups of nc_n_gather ---------------------------------------------------------------- */

enum { GATHER_GROUP = 512 };

/* Elements i to i + n of a pattern that is one run. */
static uint32_t group(as_job *j, const isa_ap *run, uint64_t i, uint64_t n) {
  /* Its place and type stay; only where it begins and how long it is change. */
  isa_ap ap = *run;
  /* The run begins i elements later. */
  ap.offset += (int64_t)i * run->dim[0].step * (int64_t)isa_dtype_bytes(run->dtype);
  ap.dim[0].num = (uint32_t)n;
  uint32_t index = isa_program_ap(as_program(j), j->unit->core, &ap);
  if (index == 0) as_nomem(j);
  return index;
}

static bool one_run(as_job *j, as_stmt *st, const char *name, uint32_t index, isa_ap *run) {
  memset(run, 0, sizeof *run);
  /* What cannot be one dimension cannot be cut by a start and a length. */
  isa_ap_merge(pattern(j, index), run);
  if (run->ndim == 1 && run->size_dim < 2 && !run->index_kind) return true;
  const as_slot *s = slot_of(st, name);
  as_error(j, s->pos, s->span,
           "%s has more than %d elements in a partition; to be cut into groups they must be one "
           "dense run",
           name, GATHER_GROUP);
  return false;
}

static bool emit_groups(as_job *j, as_stmt *st) {
  struct isa_N_GATHER whole = st->part[0].u.N_GATHER;
  const isa_ap *index = pattern(j, whole.index), *dst = pattern(j, whole.dst);
  uint64_t n = index ? isa_ap_elems(index) : 0;
  /* A few indices are one instruction; the rules report the rest.
   * 512: what one n_gather takes (rules_gpsimd.c). */
  if (n <= GATHER_GROUP || !dst || isa_ap_elems(dst) != n) return as_match_emit(j, st);
  isa_ap dst_run, index_run;
  if (!one_run(j, st, "dst", whole.dst, &dst_run) ||
      !one_run(j, st, "index", whole.index, &index_run))
    return false;
  isa_wait wait = st->part[0].wait;
  isa_update upd = st->part[0].upd;
  for (uint64_t i = 0; i < n; i += GATHER_GROUP) {
    uint64_t count = n - i < GATHER_GROUP ? n - i : GATHER_GROUP;
    isa_insn *in = &st->part[0];
    in->u.N_GATHER.dst = group(j, &dst_run, i, count);
    in->u.N_GATHER.index = group(j, &index_run, i, count);
    /* The first waits, and the last one updates. */
    in->wait = i == 0 ? wait : (isa_wait){0};
    in->upd = i + count == n ? upd : (isa_update){0};
    /* The ones that were emitted stay: the error ends the program anyway. */
    if (!as_match_emit(j, st)) return false;
  }
  return true;
}

void as_pseudo_emit(as_job *j, int ps, as_stmt *st) {
  if (ps == PS_nc_n_gather)
    emit_groups(j, st);
  else
    as_match_emit(j, st);
}
