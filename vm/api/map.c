/* The map pc <-> line <-> text of a program. */
#include "../../isa/flow.h"
#include "../../isa/operand.h"
#include "impl.h"

#include <string.h>

static const isa_code *code_of(const soma_program *p, unsigned core, soma_engine e) {
  if (!p || core >= p->p->ncores || (unsigned)e >= ISA_NSEQS) return NULL;
  /* NULL covers every argument that is out of range. */
  return &p->p->cores[core].code[e];
}

uint32_t soma_program_instructions(const soma_program *p, unsigned core, soma_engine e) {
  const isa_code *code = code_of(p, core, e);
  return code ? code->n : 0;
}

/* The first of several labels. */
static const char *label_of(const isa_program *p, unsigned core, unsigned e, uint32_t pc) {
  for (uint32_t i = 0; i < p->nsymbols; i++) {
    const isa_symbol *s = &p->symbols[i];
    if (s->core == core && s->engine == e && s->pc == pc) return s->name;
  }
  return NULL;
}

/* An older caller gets less, a newer one zeros. */
soma_status soma_give(void *out, size_t n, const void *from, size_t size) {
  memset(out, 0, n);
  memcpy(out, from, n < size ? n : size);
  return SOMA_OK;
}

soma_status soma_program_instruction(const soma_program *p, unsigned core, soma_engine e,
                                     uint32_t pc, soma_instruction *out, size_t n) {
  const isa_code *code = code_of(p, core, e);
  if (!code || !out || pc >= code->n) return SOMA_ARG;
  soma_instruction i = {.engine = e,
                        .pc = pc,
                        .name = isa_ops[code->insns[pc].op].name,
                        .target = isa_insn_target(&code->insns[pc]),
                        .label = label_of(p->p, core, (unsigned)e, pc)};
  const isa_line *at = code->lines ? &code->lines[pc] : NULL;
  if (at && at->file) {
    i.line = at->line;
    i.file = p->p->files[at->file - 1];
    i.call = at->call;
  }
  return soma_give(out, n, &i, sizeof i);
}

/* Whether `name` is the file, or the end of its path. */
static bool is_file(const char *file, const char *name) {
  size_t n = strlen(file), k = strlen(name);
  /* "a.s" is "dir/a.s", but not "ba.s". */
  return k <= n && strcmp(file + n - k, name) == 0 && (k == n || file[n - k - 1] == '/');
}

uint32_t soma_program_line(const soma_program *p, unsigned core, soma_engine e, const char *file,
                           uint32_t line, uint32_t from) {
  const isa_code *code = code_of(p, core, e);
  if (!code) return 0;
  /* Instructions of a line need not follow one another. */
  for (uint32_t pc = from; file && code->lines && pc < code->n; pc++) {
    const isa_line *at = &code->lines[pc];
    if (at->line == line && at->file && is_file(p->p->files[at->file - 1], file)) return pc;
  }
  return code->n;
}

soma_status soma_program_loop(const soma_program *p, unsigned core, soma_engine e, uint32_t pc,
                              uint32_t *top, uint32_t *end) {
  const isa_code *code = code_of(p, core, e);
  isa_loop l;
  if (!code || !top || !end || !isa_loop_around(code, pc, &l)) return SOMA_ARG;
  *top = l.top;
  *end = l.end;
  return SOMA_OK;
}

soma_status soma_instruction_text(const soma_program *p, unsigned core, soma_engine e, uint32_t pc,
                                  char **text, size_t *n) {
  const isa_code *code = code_of(p, core, e);
  if (!code || !text || !n || pc >= code->n) return SOMA_ARG;
  /* The caller frees it with soma_bytes_free. */
  isa_alloc al = isa_alloc_default(); /* the caller's to free */
  isa_buf b;
  isa_buf_init(&b, &al);
  isa_print_insn(p->p, core, (unsigned)e, &code->insns[pc], &b);
  isa_buf_str(&b);
  *text = b.data;
  *n = b.len;
  if (!b.failed && b.data) return SOMA_OK;
  isa_buf_free(&b);
  *text = NULL;
  return SOMA_NOMEM;
}

soma_status soma_program_call(const soma_program *p, uint32_t i, soma_macro_call *out, size_t n) {
  if (!p || !out || i == 0 || i > p->p->ncalls) return SOMA_ARG;
  const isa_call *c = &p->p->calls[i - 1];
  soma_macro_call call = {.name = c->name,
                          .file = c->file ? p->p->files[c->file - 1] : NULL,
                          .line = c->line,
                          .round = c->round,
                          .outer = c->outer};
  return soma_give(out, n, &call, sizeof call);
}

soma_status soma_program_label(const soma_program *p, const char *name, uint32_t i, unsigned *core,
                               soma_engine *e, uint32_t *pc) {
  if (!p || !name || !core || !e || !pc) return SOMA_ARG;
  for (uint32_t k = 0; k < p->p->nsymbols; k++) {
    const isa_symbol *s = &p->p->symbols[k];
    /* Labels of sections that are no code have no engine. */
    if (strcmp(s->name, name) != 0 || s->engine >= ISA_NSEQS || i-- > 0) continue;
    *core = s->core;
    *e = (soma_engine)s->engine;
    *pc = s->pc;
    return SOMA_OK;
  }
  return SOMA_ARG;
}

const char *soma_program_semaphore_name(const soma_program *p, unsigned core, uint32_t i) {
  return p && core < p->p->ncores && i < ISA_NSEMS ? p->p->cores[core].sem_names[i] : NULL;
}

const char *soma_program_queue_name(const soma_program *p, unsigned core, uint32_t i) {
  if (!p || core >= p->p->ncores || i >= p->p->cores[core].nqueues) return NULL;
  return p->p->cores[core].queues[i].name;
}
