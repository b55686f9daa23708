/* Bytes of an output that nothing has written when the run ends. */
#include "../../isa/slice.h"
#include "check.h"
#include "shadow.h"

#include <string.h>

static bool is_watched(const vm_core *c, uint32_t i) {
  /* A borrowed block may have been written before the run. */
  return c->prog->tensors[i].role == ISA_OUTPUT && !c->run->blocks[i].borrowed &&
         c->run->blocks[i].bytes;
}

static size_t pieces_of(const vm_ck_shadow *s) {
  return (size_t)((s->bytes + VM_CK_PIECE - 1) / VM_CK_PIECE);
}

static bool start_output(vm_core *c) {
  struct vm_check *k = c->check;
  uint32_t n = c->prog->ntensors;
  if (!vm_ck_has(c, VM_CHECK_OUTPUT)) return true;
  if (n && !k->hbm && !(k->hbm = isa_zalloc(&c->al, n * sizeof *k->hbm))) return false;
  for (uint32_t i = 0; i < n; i++) {
    /* A tensor that is read has a shadow already (uninit.c). */
    if (!is_watched(c, i) || k->hbm[i].at) continue;
    k->hbm[i].bytes = c->run->blocks[i].bytes;
    if (!(k->hbm[i].at = vm_pages_new(&c->al, k->hbm[i].bytes)) ||
        !(k->hbm[i].whole = isa_zalloc(&c->al, pieces_of(&k->hbm[i]))))
      return false;
  }
  return true;
}

void vm_ck_shadow_free(const isa_alloc *al, vm_ck_shadow *s) {
  vm_pages_free(al, s->at, s->bytes);
  isa_free(al, s->whole, pieces_of(s));
  *s = (vm_ck_shadow){0};
}

void vm_ck_output_write(vm_ck_shadow *s, uint8_t *row, size_t n) {
  uint64_t lo = (uint64_t)(row - s->at), hi = lo + n;
  /* Whole pieces are noted as such: no page of the shadow is touched for them. */
  uint64_t first = (lo + VM_CK_PIECE - 1) / VM_CK_PIECE, end = hi / VM_CK_PIECE;
  /* The last piece may be short. */
  if (hi == s->bytes) end = pieces_of(s);
  /* It lies within a piece, or across two. */
  if (first >= end) {
    memset(row, VM_CK_WRITTEN, n);
    return;
  }
  memset(row, VM_CK_WRITTEN, (size_t)(first * VM_CK_PIECE - lo));
  memset(s->whole + first, true, (size_t)(end - first));
  if (end * VM_CK_PIECE < hi)
    memset(s->at + end * VM_CK_PIECE, VM_CK_WRITTEN, (size_t)(hi - end * VM_CK_PIECE));
}

static size_t piece_bytes(const vm_ck_shadow *s, uint64_t i) {
  uint64_t left = s->bytes - i * VM_CK_PIECE;
  return left < VM_CK_PIECE ? (size_t)left : VM_CK_PIECE;
}

void vm_ck_output_fill(vm_ck_shadow *s) {
  for (uint64_t i = 0; s->whole && i < pieces_of(s); i++)
    /* Into single bytes, for a save or a search. */
    if (s->whole[i]) memset(s->at + i * VM_CK_PIECE, VM_CK_WRITTEN, piece_bytes(s, i));
}

static bool is_complete(const vm_ck_shadow *s) {
  for (uint64_t i = 0; i < pieces_of(s); i++)
    /* Pieces that are not whole have their bytes in `at`. */
    if (!(s->whole && s->whole[i]) && memchr(s->at + i * VM_CK_PIECE, 0, piece_bytes(s, i)))
      return false;
  return true;
}

struct search {
  uint32_t tensor;
  bool found;
};
static void match(void *ud, uint32_t tensor) {
  struct search *s = ud;
  s->found |= tensor == s->tensor;
}

/* An instruction that writes the tensor, the first in the program; false: none exists. */
static bool find_writer(const vm_core *c, uint32_t tensor, unsigned *e, uint32_t *pc) {
  struct search s = {.tensor = tensor};
  unsigned n = c->check->nengines;
  for (*e = 0; *e < n; (*e)++)
    for (*pc = 0; *pc < vm_ck_code(c, *e)->n; (*pc)++) {
      vm_ck_insn_tensors(vm_ck_core_of(c, *e), &vm_ck_code(c, *e)->insns[*pc], AP_W, match, &s);
      if (s.found) return true;
    }
  /* No instruction writes it: an engine that has code is named. */
  for (*e = 0, *pc = 0; *e < n - 1 && !vm_ck_code(c, *e)->n;) (*e)++;
  return false;
}

/* "rows 384..511" of the first dimension if all their bytes are missing, else the bytes. */
static void put_hole(const isa_tensor *t, uint64_t lo, uint64_t hi, uint64_t missing,
                     isa_buf *out) {
  bool many = isa_slice_put_bytes(t, lo, hi, out);
  isa_buf_printf(out, " %s never written", many ? "were" : "was");
  if (missing > hi - lo)
    isa_buf_printf(out, "; %llu of its %llu bytes are missing", (unsigned long long)missing,
                   (unsigned long long)t->bytes);
}

static void report(vm_core *c, uint32_t i, uint64_t lo, uint64_t hi, uint64_t missing) {
  unsigned e;
  uint32_t pc;
  bool written = find_writer(c, i, &e, &pc);
  vm_finding *f = vm_ck_found(c, VM_CHECK_OUTPUT, e, pc, VM_CK_ENGINES, i + 1);
  if (!f) return;
  vm_ck_put_place(c, e, pc, &f->text);
  isa_buf_printf(&f->text, ": output: tensor %s: ", c->prog->tensors[i].name);
  put_hole(&c->prog->tensors[i], lo, hi, missing, &f->text);
  if (written)
    vm_ck_put_insn(c, e, pc, c->now, &f->text);
  else
    isa_buf_puts(&f->text, "; no instruction writes it");
}

void vm_ck_output_finish(vm_core *c) {
  const struct vm_check *k = c->check;
  for (uint32_t i = 0; i < c->prog->ntensors; i++) {
    if (!is_watched(c, i) || !k->hbm[i].at || is_complete(&k->hbm[i])) continue;
    /* Now the first hole can be looked for. */
    vm_ck_output_fill(&k->hbm[i]);
    const uint8_t *at = k->hbm[i].at, *end = at + c->prog->tensors[i].bytes;
    const uint8_t *lo = memchr(at, 0, (size_t)(end - at)), *hi = lo;
    uint64_t missing = 0;
    if (!lo) continue;
    while (hi < end && !*hi) hi++;
    /* There may be more than one hole. */
    for (const uint8_t *p = lo; p < end; p++) missing += !*p;
    report(c, i, (uint64_t)(lo - at), (uint64_t)(hi - at), missing);
  }
}

/* ---- In a saved run ------------------------------------------------------------------------ */

/* A tensor that was another's memory when the run began counts as written: it has no shadow. */
static void walk_tensor_shadow(vm_saver *s, vm_core *c, vm_ck_shadow *h) {
  bool kept = h->at != NULL;
  vm_save_bool(s, &kept);
  if (!vm_saver_need(s, !kept || h->at, "a shadow belongs to no tensor")) return;
  /* Bound to other memory when the run began: it has no shadow here. */
  if (!kept && h->at) vm_ck_shadow_free(&c->al, h);
  if (!kept) return;
  uint64_t reach = h->bytes;
  vm_ck_output_fill(h);
  vm_ck_shadow_walk(s, h->at, h->bytes, &reach);
}

static void walk_outputs(vm_saver *s, vm_core *c) {
  for (uint32_t i = 0; c->check->hbm && i < c->prog->ntensors && !s->failed; i++)
    walk_tensor_shadow(s, c, &c->check->hbm[i]);
}

const vm_ck_part vm_ck_part_output = {.start = start_output, .walk = walk_outputs};
