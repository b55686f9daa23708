/* The findings of a run. */
#include "impl.h"

#include <string.h>

const char *soma_check_name(soma_check c) { return vm_check_name((unsigned)c); }

const char *soma_check_text(soma_check c) {
  static const char *const texts[] = {
#define CHECK(code, name, values, usual, text) text,
#include "../checks.def"
  };
  return (unsigned)c < SOMA_CHECKS ? texts[c] : NULL;
}

/* A bit for each check that is on by default. */
unsigned soma_check_usual(void) {
  return 0
#define CHECK(code, name, values, usual, text) | (usual) << SOMA_CHECK_##code
#include "../checks.def"
      ;
}

uint64_t soma_run_findings(const soma_run *r) { return r ? vm_check_count(r->run.cores[0]) : 0; }

/* The line of an instruction, 0 and NULL if it is not known; engines of both cores together. */
static uint32_t line_of(const soma_run *r, unsigned e, uint32_t pc, const char **file) {
  /* The host, or no second place. */
  *file = NULL;
  if (e >= VM_NO_ENGINE) return 0;
  /* Engines of core 1 come after those of core 0. */
  const isa_code *code = &r->p->p->cores[e >= ISA_NSEQS].code[e % ISA_NSEQS];
  bool known = code->lines && pc < code->n && code->lines[pc].file;
  *file = known ? r->p->p->files[code->lines[pc].file - 1] : NULL;
  return known ? code->lines[pc].line : 0;
}

/* Without memory for a text the finding is still one. */
static bool is_cut(const vm_finding *f) { return f->text.failed || !f->text.data; }

const char *soma_found_text(const soma_run *r, uint32_t i) {
  const vm_finding *f = vm_check_finding(r->run.cores[0], i);
  return is_cut(f) ? "out of memory" : f->text.data;
}

/* One buffer for each finding that can be. */
void soma_drop_found(soma_run *r) {
  for (uint32_t i = 0; r->found && i < VM_FINDINGS; i++) isa_buf_free(&r->found[i]);
  isa_free(&r->run.al, r->found, VM_FINDINGS * sizeof *r->found);
  r->found = NULL;
}

/* The text with its newline. It may have grown since it was last asked for. */
static const char *whole_text(soma_run *r, uint32_t i) {
  /* Made when first asked for: most runs have no findings. */
  if (!r->found) r->found = isa_zalloc(&r->run.al, VM_FINDINGS * sizeof *r->found);
  if (!r->found) return "out of memory\n";
  isa_buf *b = &r->found[i];
  /* A world adds to it. */
  const char *text = soma_found_text(r, i);
  size_t n = strlen(text);
  /* The same text as last time keeps its place. */
  if (b->len == n + 1 && memcmp(b->data, text, n) == 0) return b->data;
  isa_buf_free(b);
  isa_buf_init(b, &r->run.al);
  isa_buf_printf(b, "%s\n", text);
  return b->failed ? "out of memory\n" : isa_buf_str(b);
}

soma_status soma_run_finding(const soma_run *r, uint32_t i, soma_finding *out) {
  if (!r || !out) return SOMA_ARG;
  const vm_finding *f = vm_check_finding(r->run.cores[0], i);
  if (!f) return SOMA_ARG;
  *out = (soma_finding){.check = (soma_check)f->kind,
                        .engine = (soma_engine)(f->engine % ISA_NSEQS),
                        .pc = f->pc,
                        .time = f->time,
                        .text = whole_text((soma_run *)(uintptr_t)r, i)};
  out->line = line_of(r, f->engine, f->pc, &out->file);
  /* Another rank's place is named by that rank. */
  if (!f->peer[0].rank) return SOMA_OK;
  out->engine = (soma_engine)f->peer[0].engine;
  out->pc = f->peer[0].pc;
  out->line = f->peer[0].line;
  out->file = f->peer[0].file;
  return SOMA_OK;
}

soma_status soma_run_finding_other(const soma_run *r, uint32_t i, soma_place *out, size_t n) {
  const vm_finding *f = r ? vm_check_finding(r->run.cores[0], i) : NULL;
  /* A finding with one place has no second. */
  if (!out || !f || f->other_engine >= VM_NO_ENGINE) return SOMA_ARG;
  soma_place all = {.engine = (soma_engine)(f->other_engine % ISA_NSEQS),
                    .core = f->other_engine >= ISA_NSEQS,
                    .pc = f->other_pc};
  all.line = line_of(r, f->other_engine, f->other_pc, &all.file);
  memcpy(out, &all, n < sizeof all ? n : sizeof all);
  return SOMA_OK;
}

soma_status soma_run_unsignalled(const soma_run *r, uint32_t i, soma_unsignalled *out, size_t n) {
  const vm_finding *f = r ? vm_check_finding(r->run.cores[0], i) : NULL;
  /* Without a fix in the text there is nothing to replace. */
  if (!out || !f || !f->fix_end || is_cut(f)) return SOMA_ARG;
  const isa_program *p = r->p->p;
  /* Places in the text are bytes from its beginning. */
  soma_unsignalled all = {.core = f->engine >= ISA_NSEQS,
                          .other_core = f->other_engine >= ISA_NSEQS,
                          .fix = f->fix,
                          .fix_end = f->fix_end};
  all.other_line = line_of(r, f->other_engine, f->other_pc, &all.other_file);
  /* 1 and 2 are SBUF and PSUM: tensors follow. */
  if (f->memory >= 3 && f->memory - 3u < p->ntensors) all.tensor = p->tensors[f->memory - 3u].name;
  memcpy(out, &all, n < sizeof all ? n : sizeof all);
  return SOMA_OK;
}

unsigned soma_run_finding_core(const soma_run *r, uint32_t i) {
  if (!r) return 0;
  const vm_finding *f = vm_check_finding(r->run.cores[0], i);
  /* Another rank's core is told by that rank. */
  if (f && f->peer[0].rank) return f->peer[0].core;
  return f && f->engine >= ISA_NSEQS;
}

static int engine_of(unsigned e) { return e < VM_NO_ENGINE ? (int)(e % ISA_NSEQS) : -1; }

soma_status soma_run_schedules(soma_run *r, soma_schedules *out, size_t n) {
  soma_status s = r ? (soma_status)r->run.fault.status : SOMA_ARG;
  /* The judge needs the steps that this check keeps. */
  bool asked = r && vm_check_mask(r->run.cores[0]) >> VM_CHECK_LEGAL & 1;
  /* Only a run that has ended well has one outcome to compare with. */
  if (!out || !asked || !r->run.ended || (s != SOMA_OK && s != SOMA_CHECK)) return SOMA_ARG;
  vm_schedules *v = &r->schedules;
  /* Judged once: it may take long. */
  if (!v->text.data) vm_check_schedules(r->run.cores[0], v);
  /* A text without memory is made again when it is asked for. */
  if (v->text.failed) {
    isa_buf_free(&v->text);
    return SOMA_NOMEM;
  }
  const soma_schedules all = {.verdict = (soma_verdict)v->verdict,
                              .states = v->states,
                              .engine = engine_of(v->engine),
                              .other_engine = engine_of(v->other_engine),
                              .pc = v->pc,
                              .other_pc = v->other_pc,
                              .text = isa_buf_str(&v->text)};
  memcpy(out, &all, n < sizeof all ? n : sizeof all);
  return SOMA_OK;
}
