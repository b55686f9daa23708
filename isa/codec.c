/* Records: one instruction in 64 bytes, one pattern in 128, little endian. Both directions walk
 * the form's fields; a decoder refuses every byte that the encoder would not write.
 *
 *   instruction  0 opcode  2 wait: cond, is_reg << 4, core << 5   4 wait's semaphore
 *                          3 update: kind, at_read << 4, core << 5  5 update's semaphore
 *                6 zero    8 wait's value   12 update's value   16 operands (isa_field.at)
 *
 *   pattern      0 dtype  1 space  2 ndim  3 index_kind  4 index_dim  5 size_dim  6 size_reg
 *                8 part  10 nparts  12 base  16 index  20 peer  22 rank  24 offset
 *               32 five of: step 8 bytes, num 4    92 two of: kind, reg, 0, 0, ap 4, stride 8 */
#include "bytes.h"
#include "program.h"

#include <string.h>

enum { OPERANDS = 16, AP_DIM = 32, AP_DIM_BYTES = 12, AP_DYN = 92, AP_DYN_BYTES = 16 };

/* ---- Instructions: encode ----------------------------------------------------------------- */

static void put_field(const isa_insn *in, const isa_field *f, uint8_t *out) {
  const void *m = isa_member_c(in, f);
  uint32_t v = 0;
  switch (f->kind) {
  case ISA_K_INT: {
    isa_int x;
    memcpy(&x, m, sizeof x);
    out[0] = x.is_reg;
    isa_put32(out + 1, (uint32_t)x.v);
    return;
  }
  case ISA_K_PLACE: {
    isa_point x;
    memcpy(&x, m, sizeof x);
    out[0] = x.engine;
    isa_put32(out + 1, x.pc);
    return;
  }
  case ISA_K_NUM: {
    isa_num x;
    memcpy(&x, m, sizeof x);
    out[0] = x.kind;
    isa_put32(out + 1, x.v);
    return;
  }
  default: break;
  }
  /* A list lies in the pool of the program; the record only says where. */
  if (isa_kind_elem[f->kind] != 0) {
    isa_ref x;
    memcpy(&x, m, sizeof x);
    isa_put32(out, x.offset);
    isa_put32(out + 4, x.count);
    return;
  }
  switch (isa_kind_bytes[f->kind]) { /* a plain number of 1, 2 or 4 bytes */
  case 1: out[0] = *(const uint8_t *)m; break;
  case 2: isa_put16(out, *(const uint16_t *)m); break;
  default: memcpy(&v, m, sizeof v); isa_put32(out, v);
  }
}

void isa_encode(const isa_insn *in, uint8_t out[ISA_RECORD]) {
  memset(out, 0, ISA_RECORD);
  if (in->op >= ISA_NOPS) return; /* number 0 is not an opcode: the decoder refuses it */
  const isa_wait *w = &in->wait;
  const isa_update *u = &in->upd;
  isa_put16(out, isa_ops[in->op].number);
  out[2] = (uint8_t)((w->cond & 15) | (w->is_reg & 1) << 4 | w->core << 5);
  out[3] = (uint8_t)((u->kind & 15) | (u->at_read & 1) << 4 | u->core << 5);
  out[4] = w->sem;
  out[5] = u->sem;
  isa_put32(out + 8, w->value);
  isa_put32(out + 12, u->value);
  const isa_form *form = isa_form_of(in->op);
  for (unsigned i = 0; i < form->nfields; i++)
    put_field(in, &form->fields[i], out + form->fields[i].at);
}

/* ---- Instructions: decode ----------------------------------------------------------------- */

typedef struct reader {
  const uint8_t *in;
  const isa_form *form;
  isa_error *e;
} reader;

/* The record's byte and the operand's name: a person who looks at a hex dump finds it by either. */
static bool bad(const reader *r, unsigned i, const char *rule, uint32_t value) {
  const isa_field *f = &r->form->fields[i];
  return isa_fail(r->e, ISA_FORMAT, (int)i, "byte %u, operand %s: %s, found %u", f->at, f->name,
                  rule, value);
}

static bool get_int(const reader *r, unsigned i, void *m) {
  const uint8_t *p = r->in + r->form->fields[i].at;
  uint32_t v = isa_get32(p + 1);
  if (p[0] > 1) return bad(r, i, "the tag of an integer is 0 (immediate) or 1 (register)", p[0]);
  /* An immediate may be any 32 bits, a register may not. */
  if (p[0] == 1 && v >= ISA_NREGS) return bad(r, i, "a register is 0 to 63", v);
  isa_int x;
  memset(&x, 0, sizeof x); /* padding too: equal instructions are equal bytes */
  x.is_reg = p[0] == 1;
  memcpy(&x.v, &v, sizeof v);
  memcpy(m, &x, sizeof x);
  return true;
}

static bool get_num(const reader *r, unsigned i, void *m) {
  const isa_field *f = &r->form->fields[i];
  const uint8_t *p = r->in + f->at;
  uint32_t v = isa_get32(p + 1);
  if (p[0] > ISA_NUM_ap)
    return bad(r, i, "the tag of a number is 0 to 3 (none, immediate, register, pattern)", p[0]);
  /* One number has one encoding: equal programs are equal bytes, and have one hash. */
  if (p[0] == ISA_NUM_none && v != 0) return bad(r, i, "an absent number has no value", v);
  if (p[0] == ISA_NUM_none && f->mode != ISA_MODE_D)
    return bad(r, i, "the number must be given", 0);
  if (p[0] == ISA_NUM_reg && v >= ISA_NREGS) return bad(r, i, "a register is 0 to 63", v);
  if (p[0] == ISA_NUM_ap && v == 0) return bad(r, i, "patterns are numbered from 1", v);
  isa_num x;
  memset(&x, 0, sizeof x);
  x.kind = p[0];
  x.v = v;
  memcpy(m, &x, sizeof x);
  return true;
}

static bool get_place(const reader *r, unsigned i, void *m) {
  const uint8_t *p = r->in + r->form->fields[i].at;
  isa_point x;
  if (p[0] >= ISA_NENGINES) return bad(r, i, "the engine of an instruction is 0 to 4", p[0]);
  memset(&x, 0, sizeof x);
  x.engine = p[0];
  x.pc = isa_get32(p + 1);
  memcpy(m, &x, sizeof x);
  return true;
}

static bool get_list(const reader *r, unsigned i, void *m) {
  const uint8_t *p = r->in + r->form->fields[i].at;
  isa_ref x = {isa_get32(p), isa_get32(p + 4)};
  if (x.count == 0 && x.offset != 0) return bad(r, i, "an empty list has offset 0", x.offset);
  /* Lists of 64-bit numbers are read in place, so all lists begin at such an offset. */
  if (x.offset % 8 != 0) return bad(r, i, "a list's offset is a multiple of 8", x.offset);
  memcpy(m, &x, sizeof x);
  return true;
}

/* The rule that the value of a plain field breaks, or NULL. */
static const char *broken_rule(const isa_field *f, uint32_t v) {
  switch (f->kind) {
  case ISA_K_REG: return v < ISA_NREGS ? NULL : "a register is 0 to 63";
  case ISA_K_AP: return v != 0 || f->mode == ISA_MODE_D ? NULL : "the pattern must be given";
  case ISA_K_ENUM: return isa_set_item(f->arg, v) ? NULL : "no such member of the set";
  case ISA_K_ALU: return v < ISA_NALUOPS ? NULL : "no such ALU operator";
  case ISA_K_ACTF: return v < ISA_NACTFNS ? NULL : "no such activation function";
  case ISA_K_QUEUE: return v < ISA_MAX_QUEUES ? NULL : "a queue is 0 to 23";
  default: return NULL;
  }
}

static bool get_field(const reader *r, unsigned i, isa_insn *out) {
  const isa_field *f = &r->form->fields[i];
  void *m = isa_member(out, f);
  const uint8_t *p = r->in + f->at;
  if (f->kind == ISA_K_INT) return get_int(r, i, m);
  if (f->kind == ISA_K_NUM) return get_num(r, i, m);
  if (f->kind == ISA_K_PLACE) return get_place(r, i, m);
  if (isa_kind_elem[f->kind] != 0) return get_list(r, i, m);
  /* What is left is a plain number; forms.def says how wide. */
  unsigned width = isa_kind_bytes[f->kind];
  uint32_t v = width == 1 ? p[0] : width == 2 ? isa_get16(p) : isa_get32(p);
  const char *rule = broken_rule(f, v);
  if (f->kind >= ISA_K_U8 && f->kind <= ISA_K_U32 && v > f->arg)
    return isa_fail(r->e, ISA_FORMAT, (int)i, "byte %u, operand %s: at most %u, found %u", f->at,
                    f->name, f->arg, v);
  if (rule) return bad(r, i, rule, v);
  if (width == 1)
    *(uint8_t *)m = (uint8_t)v;
  else if (width == 2)
    *(uint16_t *)m = (uint16_t)v;
  else
    memcpy(m, &v, sizeof v);
  return true;
}

static bool bad_byte(isa_error *e, unsigned at, const char *what, uint32_t value) {
  return isa_fail(e, ISA_FORMAT, ISA_NOFIELD, "byte %u, %s, found %u", at, what, value);
}

static bool get_wait(const uint8_t *in, isa_wait *w, isa_error *e) {
  *w = (isa_wait){in[2] & 15, in[2] >> 5, in[4], in[2] >> 4 & 1, isa_get32(in + 8)};
  if (w->cond >= ISA_NCONDS) return bad_byte(e, 2, "wait: a condition is 0 to 6", w->cond);
  if (w->cond == ISA_WAIT_none && in[2] != 0)
    return bad_byte(e, 2, "wait: no condition, so no other bits", in[2]);
  if (w->cond == ISA_WAIT_none && w->sem != 0)
    return bad_byte(e, 4, "wait: no condition, so no semaphore", w->sem);
  if (w->cond == ISA_WAIT_none && w->value != 0)
    return bad_byte(e, 8, "wait: no condition, so no value", w->value);
  if (w->core >= ISA_MAX_CORES) return bad_byte(e, 2, "wait: a core is 0 or 1", w->core);
  if (w->is_reg && w->value >= ISA_NREGS)
    return bad_byte(e, 8, "wait: a register is 0 to 63", w->value);
  /* A semaphore never gets there: no wait can mean it. */
  if (w->value > ISA_SEM_MAX)
    return bad_byte(e, 8, "wait: the value is over the largest, 2147483647", w->value);
  return true;
}

static bool get_update(const uint8_t *in, isa_update *u, isa_error *e) {
  *u = (isa_update){in[3] & 15, in[3] >> 4 & 1, in[3] >> 5, in[5], isa_get32(in + 12)};
  bool has_value = (u->kind >= ISA_UPD_add && u->kind <= ISA_UPD_write) || u->kind == ISA_UPD_peer;
  if (u->kind >= ISA_NUPDS) return bad_byte(e, 3, "update: a kind is 0 to 7", u->kind);
  if (u->kind == ISA_UPD_none && in[3] != 0)
    return bad_byte(e, 3, "update: no kind, so no other bits", in[3]);
  if (u->kind == ISA_UPD_none && u->sem != 0)
    return bad_byte(e, 5, "update: no kind, so no semaphore", u->sem);
  /* Rings signal when their bytes are written: no moment of reading is known to the queue. */
  if (u->kind == ISA_UPD_dma && u->at_read)
    return bad_byte(e, 3, "update: a transfer completes, it has no @read", in[3]);
  if (u->core >= ISA_MAX_CORES) return bad_byte(e, 3, "update: a core is 0 or 1", u->core);
  if (u->kind == ISA_UPD_peer && u->value > ISA_MAX_PEERS)
    return bad_byte(e, 12, "update: a peer is 0 to 65535", u->value);
  if (u->kind == ISA_UPD_peer && u->at_read)
    return bad_byte(e, 3, "update: a peer's comes at completion, it has no @read", in[3]);
  if (!has_value && u->value != 0)
    return bad_byte(e, 12, "update: this kind has no value", u->value);
  if (u->value > ISA_SEM_MAX)
    return bad_byte(e, 12, "update: the value is over the largest, 2147483647", u->value);
  return true;
}

bool isa_decode(const uint8_t in[ISA_RECORD], isa_insn *out, isa_error *e) {
  unsigned number = isa_get16(in);
  int op = isa_op_by_number(number);
  memset(out, 0, sizeof *out);
  if (op < 0)
    return isa_fail(e, ISA_FORMAT, ISA_NOFIELD, "byte 0: no instruction has the opcode 0x%04x",
                    number);
  out->op = (uint16_t)op;
  /* Room for what comes later: a reader that ignored it would run such a program wrongly. */
  if (in[6] != 0 || in[7] != 0)
    return bad_byte(e, in[6] != 0 ? 6 : 7, "which is reserved: it must be 0",
                    in[6] != 0 ? in[6] : in[7]);
  if (!get_wait(in, &out->wait, e) || !get_update(in, &out->upd, e)) return false;
  reader r = {in, isa_form_of((unsigned)op), e};
  unsigned end = OPERANDS; /* fields fill the record in order, without gaps */
  for (unsigned i = 0; i < r.form->nfields; i++) {
    if (!get_field(&r, i, out)) return false;
    end = (unsigned)r.form->fields[i].at + isa_kind_bytes[r.form->fields[i].kind];
  }
  /* So that no two records mean the same, and nothing can hide in one. */
  for (; end < ISA_RECORD; end++)
    if (in[end] != 0) return bad_byte(e, end, "after the last operand: it must be 0", in[end]);
  return true;
}

/* ---- Patterns ----------------------------------------------------------------------------- */

void isa_encode_ap(const isa_ap *ap, uint8_t out[ISA_AP_RECORD]) {
  memset(out, 0, ISA_AP_RECORD);
  const uint8_t head[] = {ap->dtype,     ap->space,    ap->ndim,    ap->index_kind,
                          ap->index_dim, ap->size_dim, ap->size_reg};
  memcpy(out, head, sizeof head);
  isa_put16(out + 8, ap->part);
  isa_put16(out + 10, ap->nparts);
  isa_put32(out + 12, ap->base);
  isa_put32(out + 16, ap->index);
  out[20] = ap->peer;
  isa_put16(out + 22, ap->rank);
  isa_put64(out + 24, (uint64_t)ap->offset);
  /* Dimensions past ndim stay zero, whatever the pattern has there. */
  for (unsigned d = 0; d < ap->ndim && d < ISA_MAX_DIMS; d++) {
    isa_put64(out + AP_DIM + AP_DIM_BYTES * d, (uint64_t)ap->dim[d].step);
    isa_put32(out + AP_DIM + AP_DIM_BYTES * d + 8, ap->dim[d].num);
  }
  for (unsigned i = 0; i < ISA_MAX_DYN; i++) {
    const isa_dyn *y = &ap->dyn[i];
    uint8_t *p = out + AP_DYN + AP_DYN_BYTES * i;
    p[0] = y->kind;
    p[1] = y->reg;
    isa_put32(p + 4, y->ap);
    isa_put64(p + 8, (uint64_t)y->stride);
  }
}

static bool bad_ap(isa_error *e, unsigned at, const char *rule, uint64_t value) {
  return isa_fail(e, ISA_FORMAT, ISA_NOFIELD, "pattern, byte %u, %s, found %llu", at, rule,
                  (unsigned long long)value);
}

static bool check_head(const isa_ap *a, isa_error *e) {
  bool hbm = a->space == ISA_HBM;
  if (!isa_dtype_valid(a->dtype)) return bad_ap(e, 0, "dtype: no such type", a->dtype);
  if (a->space < ISA_SBUF || a->space > ISA_HBM)
    return bad_ap(e, 1, "space: 1 to 3 (sbuf, psum, hbm)", a->space);
  if (a->ndim > (hbm ? ISA_MAX_DIMS : ISA_MAX_DIMS - 1))
    return bad_ap(e, 2, "ndim: at most 5 in hbm, 4 in sbuf and psum", a->ndim);
  if (hbm && a->part != 0) return bad_ap(e, 8, "part: hbm has no partitions", a->part);
  /* HBM has no partitions: its rows are a dimension like any other, and so there is one more. */
  if (hbm ? a->nparts != 0 : a->nparts == 0 || a->nparts > ISA_PMAX)
    return bad_ap(e, 10, "nparts: 0 in hbm, 1 to 128 in sbuf and psum", a->nparts);
  if (a->peer > 1 || (a->peer && a->space != ISA_SBUF))
    return bad_ap(e, 20, "peer: 1 in sbuf, else 0", a->peer);
  if (a->part >= ISA_PMAX) return bad_ap(e, 8, "part: 0 to 127", a->part);
  if (hbm && a->base == 0) return bad_ap(e, 12, "base: a pattern in hbm names a tensor", 0);
  return true;
}

static bool check_index_and_size(const isa_ap *a, isa_error *e) {
  if (a->index_kind > ISA_INDEX_indirect)
    return bad_ap(e, 3, "index_kind: 0 to 2 (none, gather, indirect)", a->index_kind);
  if (a->index_kind == ISA_INDEX_gather ? a->index_dim >= a->ndim : a->index_dim != 0)
    return bad_ap(e, 4, "index_dim: a dimension of a gather, else 0", a->index_dim);
  if ((a->index_kind == ISA_INDEX_none) != (a->index == 0))
    return bad_ap(e, 16, "index: a pattern with an index kind, else 0", a->index);
  /* 1 is the partitions, of which hbm has none. */
  if (a->size_dim > a->ndim + 1 || (a->size_dim == 1 && a->space == ISA_HBM))
    return bad_ap(e, 5, "size_dim: no such dimension", a->size_dim);
  if (a->size_reg >= ISA_NREGS || (a->size_dim == 0 && a->size_reg != 0))
    return bad_ap(e, 6, "size_reg: a register with size_dim, else 0", a->size_reg);
  return true;
}

static bool get_dims(const uint8_t *in, isa_ap *a, isa_error *e) {
  for (unsigned d = 0; d < ISA_MAX_DIMS; d++) {
    unsigned at = AP_DIM + AP_DIM_BYTES * d;
    a->dim[d].step = (int64_t)isa_get64(in + at);
    a->dim[d].num = isa_get32(in + at + 8);
    if (d < a->ndim && a->dim[d].num == 0) return bad_ap(e, at + 8, "num: at least 1", 0);
    if (d >= a->ndim && a->dim[d].num != 0)
      return bad_ap(e, at + 8, "num: 0 after the last dimension", a->dim[d].num);
    if (d >= a->ndim && a->dim[d].step != 0)
      return bad_ap(e, at, "step: 0 after the last dimension", (uint64_t)a->dim[d].step);
  }
  return true;
}

static bool get_dyn(const uint8_t *in, unsigned at, isa_dyn *y, isa_error *e) {
  const uint8_t *p = in + at;
  y->kind = p[0];
  y->reg = p[1];
  y->ap = isa_get32(p + 4);
  y->stride = (int64_t)isa_get64(p + 8);
  if (y->kind > ISA_DYN_elem)
    return bad_ap(e, at, "dynamic offset: 0 to 2 (none, register, element)", y->kind);
  if (y->reg >= ISA_NREGS || (y->kind != ISA_DYN_reg && y->reg != 0))
    return bad_ap(e, at + 1, "dynamic offset: a register of kind 1, else 0", y->reg);
  if (p[2] != 0 || p[3] != 0) return bad_ap(e, at + 2, "reserved: must be 0", isa_get16(p + 2));
  if ((y->kind == ISA_DYN_elem) != (y->ap != 0))
    return bad_ap(e, at + 4, "dynamic offset: a pattern of kind 2, else 0", y->ap);
  if (y->kind == ISA_DYN_none && y->stride != 0)
    return bad_ap(e, at + 8, "dynamic offset: no kind, so no stride", (uint64_t)y->stride);
  return true;
}

bool isa_decode_ap(const uint8_t in[ISA_AP_RECORD], isa_ap *a, isa_error *e) {
  static const uint8_t reserved[] = {7, 21, 124, 125, 126, 127};
  memset(a, 0, sizeof *a);
  for (unsigned i = 0; i < sizeof reserved; i++)
    if (in[reserved[i]] != 0) return bad_ap(e, reserved[i], "reserved: must be 0", in[reserved[i]]);
  a->dtype = in[0];
  a->space = in[1];
  a->ndim = in[2];
  a->index_kind = in[3];
  a->index_dim = in[4];
  a->size_dim = in[5];
  a->size_reg = in[6];
  a->peer = in[20];
  a->rank = isa_get16(in + 22);
  a->part = isa_get16(in + 8);
  a->nparts = isa_get16(in + 10);
  a->base = isa_get32(in + 12);
  a->index = isa_get32(in + 16);
  a->offset = (int64_t)isa_get64(in + 24);
  if (!check_head(a, e) || !check_index_and_size(a, e) || !get_dims(in, a, e)) return false;
  for (unsigned i = 0; i < ISA_MAX_DYN; i++)
    if (!get_dyn(in, AP_DYN + AP_DYN_BYTES * i, &a->dyn[i], e)) return false;
  if (!a->dyn[0].kind && a->dyn[1].kind)
    return bad_ap(e, AP_DYN + AP_DYN_BYTES, "dynamic offset: a second one, but no first",
                  a->dyn[1].kind);
  return true;
}
