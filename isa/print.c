/* Instructions and programs as source text. The assembler accepts every form below, and the text
 * assembles to the same bytes. Blanks are free; the printer puts them as shown. By name, a pattern
 * that is a slice of its tile or tensor prints as one (print_slice.c), the others as here.
 *
 * pattern   TYPE@sbuf[PART,COUNT,OFFSET][STEPS][NUMS]         (or psum) the whole memory
 *           TYPE@sbuf[PART,COUNT,OFFSET,TILE][STEPS][NUMS]    within a tile
 *           TYPE@hbm[TENSOR,OFFSET][STEPS][NUMS]
 *           PART and OFFSET are absolute in the memory (OFFSET: bytes within each partition, also
 *           with a TILE), or bytes within the TENSOR. STEPS (in elements) and NUMS are lists with
 *           commas, innermost dimension first, of equal length; both are empty for one element.
 *   COUNT, a NUM   12, or a register with its static bound r4<=128 (one in a pattern)
 *   OFFSET         256, then up to two dynamic parts +r3*2048 or +(PATTERN)*4; the stride is in
 *                  elements and may be negative
 *   suffixes       .gather(PATTERN,D)   .indirect(PATTERN)   D counts from the outermost, 0 first
 *                  .rank[5] .rank[GROUP.next] .rank[GROUP.prev] .rank[GROUP[3]] .rank[GROUP.xor 2]:
 *                  of another rank
 *
 * operands  in the form's order: positional ones, then name=value; a keyword with an all-zero
 *           field is left out. A positional pattern that is missing is `none`.
 *   REG r5   INT -5 or r5   U8 U16 U32 I32 7   ENUM, ALU, ACTF: a name   QUEUE: its name
 *   LABEL    a label of the same section: L12 is pc 12 when it has no name
 *   PLACE    ENGINE.LABEL, of another section of the core
 *   NUM      a float, r5 (its bits), or a pattern
 *   STEPS    [[step,num],...], outermost first
 *   BYTES, I32S, F32S, APS   [x,y,...]      STR "text" with \" \\ \n \t \r \xHH
 *   floats   0.5  -0.0  1e+10  inf  -inf  nan (7fc00000); any other NaN is float(0x7fc00001), the
 *            fp32 with these bits
 *
 * clauses   wait $NAME>=32 or $NAME>=r3, one of >= > == <= < !=; update $NAME++ $NAME--
 *           $NAME+=4 $NAME-=4 $NAME=4, with @read directly after; completion of a DMA line $NAME.
 *           $S[12] is a semaphore by number, $S[1,12] number 12 of core 1, seen from the other;
 *           $peer.NAME the other core's of a name that both have; $NAME.rank[...] another rank's.
 *
 * program   target trn2
 *           NAME tensor TYPE[512,2048], input           (temp, input, output)
 *           NAME tensor TYPE[3], const = {0x01,0x02,0x03}    bits of each element; long lists
 *                                  go over lines that end in a backslash
 *           NAME tile sbuf TYPE[128,512], at=[PART,OFFSET]   then bytes=N (of a partition, when it
 *                                  is not the product of the free sizes), overlay=GROUP, own
 *           NAME sem 3
 *           NAME queue rings=16, dge=hwdge, owner=sync       then prio=N; no owner: any engine
 *           dma NAME, DST, SRC, key=value...                 a static transfer: its operands
 *                                  without the queue
 *           section sync      then its lines, each `label:` on a line of its own; a code label
 *                             belongs to its section
 *           global NAME       before the label, when it is exported
 *           %line 12 "file"   before an instruction whose place is known
 *           A semaphore or queue of core 1 adds `, core=1`, one of both under one number adds
 *           `, core=*`; core 1's sections are `section sync core=1`. A static transfer belongs
 *           to its queue's core; for a queue of both, a section line before it says which. */
#include "print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Words -------------------------------------------------------------------------------- */

/* A float as the shortest decimal that gives the same bits when read as a double and rounded. The
 * host's decimal point becomes a dot. */
static void put_finite(isa_buf *out, float x) {
  char s[40], text[44];
  size_t n = 0;
  bool is_float = false;
  /* Nine digits tell all floats apart.
   * 0.1f needs one digit, 1/3 nine; the first that reads back as the same bits is the
   * shortest. */
  for (int digits = 1; digits <= 9; digits++) {
    snprintf(s, sizeof s, "%.*g", digits, (double)x);
    if (isa_f32_bits((float)strtod(s, NULL)) == isa_f32_bits(x)) break;
  }
  for (const char *p = s; *p; p++) {
    bool plain = (*p >= '0' && *p <= '9') || *p == '-' || *p == '+' || *p == 'e';
    /* "inf" never comes here; what is not a digit, sign or e is the host's point. */
    is_float |= !plain || *p == 'e';
    if (plain)
      text[n++] = *p;
    else if (n > 0 && text[n - 1] != '.')
      text[n++] = '.';
  }
  text[n] = 0;
  /* Without a point it would be read as an integer. */
  isa_buf_printf(out, "%s%s", text, is_float ? "" : ".0");
}

void isa_pr_f32(isa_buf *out, uint32_t bits) {
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude == 0x7f800000)
    isa_buf_puts(out, bits >> 31 ? "-inf" : "inf");
  else if (bits == 0x7fc00000)
    isa_buf_puts(out, "nan");
  else if (magnitude > 0x7f800000)
    isa_buf_printf(out, "float(0x%08" PRIx32 ")", bits);
  else
    put_finite(out, isa_bits_f32(bits));
}

void isa_pr_str(isa_buf *out, const char *s, size_t n) {
  isa_buf_puts(out, "\"");
  for (size_t i = 0; i < n; i++) {
    unsigned char ch = (unsigned char)s[i];
    switch (ch) {
    case '"': isa_buf_puts(out, "\\\""); break;
    case '\\': isa_buf_puts(out, "\\\\"); break;
    case '\n': isa_buf_puts(out, "\\n"); break;
    case '\t': isa_buf_puts(out, "\\t"); break;
    case '\r': isa_buf_puts(out, "\\r"); break;
    /* Bytes above 0x7e are escaped, so that the text is ASCII whatever the program
     * holds. */
    default: isa_buf_printf(out, ch < 0x20 || ch > 0x7e ? "\\x%02x" : "%c", ch);
    }
  }
  isa_buf_puts(out, "\"");
}

/* ---- Patterns ----------------------------------------------------------------------------- */

/* r4<=128: which register, and the most that it may hold. */
void isa_pr_size(isa_buf *out, bool in_reg, unsigned reg, uint32_t n) {
  if (in_reg)
    isa_buf_printf(out, "r%u<=%" PRIu32, reg, n);
  else
    isa_buf_printf(out, "%" PRIu32, n);
}

static void put_offset(const isa_pr *pr, const isa_ap *ap, bool inner) {
  isa_buf_printf(pr->out, "%" PRId64, ap->offset);
  for (int i = 0; i < ISA_MAX_DYN; i++) {
    const isa_dyn *d = &ap->dyn[i];
    if (d->kind == ISA_DYN_none) continue;
    if (d->kind == ISA_DYN_reg) {
      isa_buf_printf(pr->out, "+r%d", d->reg);
    } else {
      isa_buf_puts(pr->out, "+(");
      if (inner) /* Printed even so, since a message about such a program must show it. */
        isa_buf_puts(pr->out, "?"); /* not legal: these patterns depend on no other */
      else
        isa_pr_ap(pr, d->ap, true);
      isa_buf_puts(pr->out, ")");
    }
    isa_buf_printf(pr->out, "*%" PRId64, d->stride);
  }
}

static void put_dims(const isa_pr *pr, const isa_ap *ap) {
  int n = ap->ndim < ISA_MAX_DIMS ? ap->ndim : ISA_MAX_DIMS;
  isa_buf_puts(pr->out, "[");
  /* Innermost first: the raw form is that of a descriptor. */
  for (int d = n; d-- > 0;) isa_buf_printf(pr->out, "%" PRId64 "%s", ap->dim[d].step, d ? "," : "");
  isa_buf_puts(pr->out, "][");
  for (int d = n; d-- > 0;) {
    isa_pr_size(pr->out, ap->size_dim == d + 2, ap->size_reg, ap->dim[d].num);
    isa_buf_puts(pr->out, d ? "," : "");
  }
  isa_buf_puts(pr->out, "]");
}

static void put_base(const isa_pr *pr, const isa_ap *ap, bool inner) {
  const isa_program *p = pr->p;
  if (ap->space == ISA_HBM) {
    /* A pattern that is not legal is printed, too. */
    bool known = ap->base && ap->base <= p->ntensors && p->tensors[ap->base - 1].name;
    isa_buf_printf(pr->out, "%s,", known ? p->tensors[ap->base - 1].name : "?");
    put_offset(pr, ap, inner);
    return;
  }
  isa_buf_printf(pr->out, "%d,", ap->part);
  isa_pr_size(pr->out, ap->size_dim == 1, ap->size_reg, ap->nparts);
  isa_buf_puts(pr->out, ",");
  put_offset(pr, ap, inner);
  if (ap->base) {
    bool known = ap->base <= p->ntiles && p->tiles[ap->base - 1].name;
    /* A tile without a name cannot come out of source, but out of a file. */
    isa_buf_printf(pr->out, ",%s", known ? p->tiles[ap->base - 1].name : "?");
  }
}

/* `.rank[5]`, `.rank[tp.next]`, `.rank[tp[3]]`, `.rank[tp.xor 2]` */
static void put_peer(const isa_pr *pr, uint32_t slot) {
  const isa_program *p = pr->p;
  const isa_peer *r = slot && slot <= p->npeers ? &p->peers[slot - 1] : NULL;
  const char *group = r && r->group && r->group <= p->ngroups ? p->groups[r->group - 1].name : "?";
  isa_buf_puts(pr->out, ".rank[");
  switch (r ? r->how : ISA_NPEERS) {
  case ISA_PEER_rank: isa_buf_printf(pr->out, "%" PRIu32, r->value); break;
  case ISA_PEER_next: isa_buf_printf(pr->out, "%s.next", group); break;
  case ISA_PEER_prev: isa_buf_printf(pr->out, "%s.prev", group); break;
  case ISA_PEER_place: isa_buf_printf(pr->out, "%s[%" PRIu32 "]", group, r->value); break;
  case ISA_PEER_xor: isa_buf_printf(pr->out, "%s.xor %" PRIu32, group, r->value); break;
  default: isa_buf_puts(pr->out, "?"); /* not legal */
  }
  isa_buf_puts(pr->out, "]");
}

void isa_pr_index(const isa_pr *pr, const isa_ap *ap, bool inner) {
  /* Other cores and ranks come after the dimensions, whichever form these have. */
  if (ap->peer) isa_buf_puts(pr->out, ".peer");
  if (ap->rank) put_peer(pr, ap->rank);
  if (ap->index_kind == ISA_INDEX_none || inner) return;
  isa_buf_puts(pr->out, ap->index_kind == ISA_INDEX_gather ? ".gather(" : ".indirect(");
  isa_pr_ap(pr, ap->index, true);
  if (ap->index_kind == ISA_INDEX_gather) isa_buf_printf(pr->out, ",%d", ap->index_dim);
  isa_buf_puts(pr->out, ")");
}

/* inner: it is an index or an offset of another pattern, and may have none of its own. */
void isa_pr_ap(const isa_pr *pr, uint32_t index, bool inner) {
  const isa_core *c = &pr->p->cores[pr->core];
  if (index == 0 || index > c->naps) {
    isa_buf_puts(pr->out, index ? "?" : "none");
    return;
  }
  const isa_ap *ap = &c->aps[index - 1];
  if (pr->named && isa_pr_slice(pr, ap, inner)) return;
  isa_buf_printf(pr->out, "%s@%s[", isa_dtype_valid(ap->dtype) ? isa_dtypes[ap->dtype].name : "?",
                 isa_space_name(ap->space));
  put_base(pr, ap, inner);
  isa_buf_puts(pr->out, "]");
  put_dims(pr, ap);
  isa_pr_index(pr, ap, inner);
}

void isa_print_ap(const isa_program *p, unsigned core, uint32_t ap, isa_buf *out) {
  isa_pr pr = {.p = p, .core = core, .out = out};
  isa_pr_ap(&pr, ap, false);
}

void isa_print_operand(const isa_program *p, unsigned core, uint32_t ap, isa_buf *out) {
  isa_pr pr = {.p = p, .core = core, .out = out, .named = true};
  isa_pr_ap(&pr, ap, false);
}

/* ---- Names -------------------------------------------------------------------------------- */

static bool taken(const isa_pr *pr, const char *name) {
  const isa_program *p = pr->p;
  for (uint32_t i = 0; i < p->nsymbols; i++)
    if (p->symbols[i].core == pr->core && p->symbols[i].engine == pr->engine &&
        p->symbols[i].name && strcmp(p->symbols[i].name, name) == 0)
      return true;
  return false;
}

static const char *symbol_at(const isa_pr *pr, uint32_t pc) {
  const isa_program *p = pr->p;
  /* For a whole section there is a table by pc.
   * A search for each label would take n * n steps in a long section. */
  if (pr->symbol_at) {
    uint32_t i = pc <= pr->npcs ? pr->symbol_at[pc] : 0;
    return i ? p->symbols[i - 1].name : NULL;
  }
  for (uint32_t i = 0; i < p->nsymbols; i++)
    if (p->symbols[i].core == pr->core && p->symbols[i].engine == pr->engine &&
        p->symbols[i].pc == pc)
      return p->symbols[i].name;
  return NULL;
}

void isa_pr_label(const isa_pr *pr, uint32_t pc) {
  char name[32];
  const char *symbol = symbol_at(pr, pc);
  if (symbol) {
    isa_buf_puts(pr->out, symbol);
    return;
  }
  size_t n = (size_t)snprintf(name, sizeof name, "L%" PRIu32, pc);
  /* L12 is a name like any other: the source may have used it for another place. */
  while (taken(pr, name) && n + 1 < sizeof name) { /* the source has a label of that name */
    name[n++] = '_';
    name[n] = 0;
  }
  isa_buf_puts(pr->out, name);
}

const char *isa_shared_sem(const isa_program *p, unsigned sem) {
  const char *a = p->cores[0].sem_names[sem], *b = p->cores[1].sem_names[sem];
  return p->ncores > 1 && a && b && strcmp(a, b) == 0 ? a : NULL;
}

static void put_sem(const isa_pr *pr, unsigned core, unsigned sem) {
  const char *shared = isa_shared_sem(pr->p, sem), *name = pr->p->cores[core].sem_names[sem];
  /* The name is enough where both cores have it; else the core's number is needed. */
  if (core != pr->core && shared)
    isa_buf_printf(pr->out, "$peer.%s", shared);
  else if (name)
    isa_buf_printf(pr->out, "$%s", name);
  else if (core == pr->core)
    isa_buf_printf(pr->out, "$S[%u]", sem);
  else
    isa_buf_printf(pr->out, "$S[%u,%u]", core, sem);
}

/* ---- Operands ----------------------------------------------------------------------------- */

static void put_named(isa_buf *out, const char *name, unsigned code) {
  if (name)
    isa_buf_puts(out, name);
  else
    isa_buf_printf(out, "%u", code); /* not legal */
}

/* Instructions on bit patterns show theirs.
 * `tensor_scalar op0=bitwise_and, imm0=float(0x000000ff)`: as a float it would say
 * nothing. */
static bool has_bit_op(const isa_insn *in) {
  const isa_form *form = isa_form_of(in->op);
  for (int f = 0; f < form->nfields; f++) {
    unsigned op = *(const uint8_t *)isa_member_c(in, &form->fields[f]);
    if (form->fields[f].kind == ISA_K_ALU && op < ISA_NALUOPS && isa_aluops[op].cls == ISA_OP_BIT)
      return true;
  }
  return false;
}

static void put_num(const isa_pr *pr, isa_num n, bool bits) {
  switch (n.kind) {
  case ISA_NUM_imm:
    if (bits)
      isa_buf_printf(pr->out, "float(0x%08" PRIx32 ")", n.v);
    else
      isa_pr_f32(pr->out, n.v);
    break;
  case ISA_NUM_reg: isa_buf_printf(pr->out, "r%" PRIu32, n.v); break;
  case ISA_NUM_ap: isa_pr_ap(pr, n.v, false); break;
  default: isa_buf_puts(pr->out, "none");
  }
}

/* Where an immediate is an integer that fills a tile: that integer.
 * memset of int8 with -1: the value in the type, not the float of the same bits. */
static bool put_filling(const isa_pr *pr, const isa_insn *in, isa_num n) {
  const isa_core *c = &pr->p->cores[pr->core];
  uint32_t dst = in->op == ISA_OP_memset ? in->u.MEMSET.dst : 0;
  unsigned type = dst && dst <= c->naps ? c->aps[dst - 1].dtype : 0;
  if (n.kind != ISA_NUM_imm || !isa_dtype_valid(type) || !isa_fills_bits(type)) return false;
  bool is_signed = isa_dtypes[type].cls == ISA_INT;
  isa_buf_printf(pr->out, "%" PRId64, is_signed ? (int64_t)(int32_t)n.v : (int64_t)n.v);
  return true;
}

static void put_item(const isa_pr *pr, unsigned kind, const void *data, uint32_t i) {
  switch (kind) {
  case ISA_K_BYTES: isa_buf_printf(pr->out, "%d", ((const uint8_t *)data)[i]); break;
  case ISA_K_APS: isa_pr_ap(pr, ((const uint32_t *)data)[i], false); break;
  case ISA_K_F32S: isa_pr_f32(pr->out, ((const uint32_t *)data)[i]); break;
  case ISA_K_I32S: isa_buf_printf(pr->out, "%" PRId32, ((const int32_t *)data)[i]); break;
  case ISA_K_PAIRS: {
    const isa_pair *p = (const isa_pair *)data + i;
    isa_buf_printf(pr->out, "[%" PRIu32 ",%" PRIu32 "]", p->from, p->to);
    break;
  }
  default: {
    const isa_step *s = (const isa_step *)data + i;
    isa_buf_printf(pr->out, "[%" PRId32 ",%" PRIu32 "]", s->step, s->num);
  }
  }
}

static void put_list(const isa_pr *pr, unsigned kind, isa_ref r) {
  const void *data = isa_program_list(pr->p, r, kind);
  /* A list outside the pool has no elements.
   * Hostile: the reader has refused such a list, but programs also come from builders. */
  if (!data) r.count = 0;
  if (kind == ISA_K_STR) {
    isa_pr_str(pr->out, data ? data : "", r.count);
    return;
  }
  isa_buf_puts(pr->out, "[");
  for (uint32_t i = 0; i < r.count; i++) {
    isa_buf_puts(pr->out, i ? "," : "");
    put_item(pr, kind, data, i);
  }
  isa_buf_puts(pr->out, "]");
}

static void put_queue(const isa_pr *pr, unsigned q) {
  const isa_core *c = &pr->p->cores[pr->core];
  put_named(pr->out, q < c->nqueues ? c->queues[q].name : NULL, q);
}

/* `gpsimd.tp_sum`: an instruction of another section by its label, `gpsimd.L12` without one. */
static void put_place(const isa_pr *pr, isa_point at) {
  /* The table of symbols is this section's own. */
  isa_pr there = {.p = pr->p, .core = pr->core, .engine = at.engine, .out = pr->out};
  put_named(pr->out, at.engine < ISA_NSEQS ? isa_engines[at.engine].name : NULL, at.engine);
  isa_buf_puts(pr->out, ".");
  isa_pr_label(&there, at.pc);
}

static void put_value(const isa_pr *pr, const isa_insn *in, const isa_field *fd) {
  const void *m = isa_member_c(in, fd);
  uint8_t byte = *(const uint8_t *)m; /* of the kinds that are one */
  switch (fd->kind) {
  case ISA_K_REG: isa_buf_printf(pr->out, "r%d", byte); break;
  case ISA_K_INT: {
    const isa_int *v = m;
    isa_buf_printf(pr->out, "%s%" PRId32, v->is_reg ? "r" : "", v->v);
    break;
  }
  case ISA_K_NUM:
    if (!put_filling(pr, in, *(const isa_num *)m)) put_num(pr, *(const isa_num *)m, has_bit_op(in));
    break;
  case ISA_K_AP: isa_pr_ap(pr, *(const isa_t_AP *)m, false); break;
  case ISA_K_U8: isa_buf_printf(pr->out, "%d", byte); break;
  case ISA_K_U16: isa_buf_printf(pr->out, "%d", *(const isa_t_U16 *)m); break;
  case ISA_K_U32: isa_buf_printf(pr->out, "%" PRIu32, *(const isa_t_U32 *)m); break;
  case ISA_K_I32: isa_buf_printf(pr->out, "%" PRId32, *(const isa_t_I32 *)m); break;
  case ISA_K_ENUM: put_named(pr->out, isa_set_item(fd->arg, byte), byte); break;
  case ISA_K_ALU:
    put_named(pr->out, byte < ISA_NALUOPS ? isa_aluops[byte].name : NULL, byte);
    break;
  case ISA_K_ACTF:
    put_named(pr->out, byte < ISA_NACTFNS ? isa_actfns[byte].name : NULL, byte);
    break;
  case ISA_K_LABEL: isa_pr_label(pr, *(const isa_t_LABEL *)m); break;
  case ISA_K_PLACE: put_place(pr, *(const isa_point *)m); break;
  case ISA_K_QUEUE: put_queue(pr, byte); break;
  case ISA_K_GROUP:
    put_named(pr->out, byte < pr->p->ngroups ? pr->p->groups[byte].name : NULL, byte);
    break;
  case ISA_K_SEM: put_named(pr->out, pr->p->cores[pr->core].sem_names[byte], byte); break;
  default: put_list(pr, fd->kind, *(const isa_ref *)m);
  }
}

/* Whether a keyword may be left out: its field is all zero. */
static bool is_default(const isa_insn *in, const isa_field *fd) {
  const void *m = isa_member_c(in, fd);
  switch (fd->kind) {
  case ISA_K_INT: return !((const isa_int *)m)->is_reg && ((const isa_int *)m)->v == 0;
  case ISA_K_NUM: return ((const isa_num *)m)->kind == ISA_NUM_none;
  case ISA_K_AP: return *(const isa_t_AP *)m == 0;
  case ISA_K_U16: return *(const isa_t_U16 *)m == 0;
  case ISA_K_U32: return *(const isa_t_U32 *)m == 0;
  case ISA_K_I32: return *(const isa_t_I32 *)m == 0;
  case ISA_K_LABEL: return *(const isa_t_LABEL *)m == 0;
  default:
    if (isa_kind_elem[fd->kind]) return ((const isa_ref *)m)->count == 0;
    return *(const uint8_t *)m == 0;
  }
}

void isa_pr_operands(const isa_pr *pr, const isa_insn *in, bool queue) {
  const isa_form *form = isa_form_of(in->op);
  const char *between = "";
  /* Two rounds over the fields: i below nfields the positional ones, above it the named
   * ones. */
  for (int i = 0; i < 2 * form->nfields; i++) { /* the positional ones, then those with a name */
    const isa_field *fd = &form->fields[i % form->nfields];
    bool named = fd->mode != ISA_MODE_P;
    if (named != (i >= form->nfields) || (fd->mode == ISA_MODE_D && is_default(in, fd)) ||
        /* A static transfer stands in its queue's line, which has named the queue. */
        (fd->kind == ISA_K_QUEUE && !queue))
      continue;
    isa_buf_puts(pr->out, between);
    if (named) isa_buf_printf(pr->out, "%s=", fd->name);
    put_value(pr, in, fd);
    between = ", ";
  }
}

/* ---- Clauses ------------------------------------------------------------------------------ */

const char *isa_cond_text(unsigned cond) {
  static const char *const conds[ISA_NCONDS] = {"", ">=", ">", "==", "<=", "<", "!="};
  return cond < ISA_NCONDS ? conds[cond] : "";
}

/* A wait that is not valid is left out: the text must be of the grammar. */
static void put_wait(const isa_pr *pr, const isa_wait *w) {
  if (w->cond == ISA_WAIT_none || w->cond >= ISA_NCONDS || w->core >= ISA_MAX_CORES) return;
  isa_buf_puts(pr->out, " ");
  put_sem(pr, w->core, w->sem);
  isa_buf_printf(pr->out, "%s%s%" PRIu32, isa_cond_text(w->cond), w->is_reg ? "r" : "", w->value);
}

static void put_update(const isa_pr *pr, const isa_update *u) {
  static const char *const kinds[ISA_NUPDS] = {"", "++", "--", "+=", "-=", "=", "", ""};
  if (u->kind == ISA_UPD_none || u->kind >= ISA_NUPDS || u->core >= ISA_MAX_CORES) return;
  isa_buf_puts(pr->out, " ");
  put_sem(pr, u->core, u->sem);
  isa_buf_puts(pr->out, kinds[u->kind]);
  /* ++ and -- have no number; += -= = have one. */
  if (u->kind >= ISA_UPD_add && u->kind <= ISA_UPD_write)
    isa_buf_printf(pr->out, "%" PRIu32, u->value);
  /* 0: each transfer's own rank. */
  if (u->kind == ISA_UPD_peer && u->value == 0)
    isa_buf_puts(pr->out, ".rank[dst]");
  else if (u->kind == ISA_UPD_peer)
    put_peer(pr, u->value);
  isa_buf_puts(pr->out, u->at_read ? "@read" : "");
}

void isa_pr_insn(const isa_pr *pr, const isa_insn *in) {
  if (in->op >= ISA_NOPS) {
    isa_buf_puts(pr->out, "?");
    return;
  }
  isa_buf_puts(pr->out, isa_ops[in->op].name);
  isa_buf_puts(pr->out, isa_form_of(in->op)->nfields ? " " : "");
  isa_pr_operands(pr, in, true);
  put_wait(pr, &in->wait);
  put_update(pr, &in->upd);
}

/* For messages and for a person: by name, as a line of source. */
void isa_print_insn(const isa_program *p, unsigned core, unsigned engine, const isa_insn *in,
                    isa_buf *out) {
  isa_pr pr = {.p = p, .core = core, .engine = engine, .out = out, .named = true};
  isa_pr_insn(&pr, in);
}
