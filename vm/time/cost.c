/* What an instruction costs: the streaming time of each cost class, from costs.def and the shapes
 * of its operands. All times are in cycles of the engine (rounded up). isa/times.def has the
 * classes, and the formula of each. */
#include "clock.h"
#include "../engine/engine.h"

const vm_cost_row vm_cost_rows[VM_NCOSTS] = {
#define COST(name, g2, g3, g4, unit, t2, t3, t4, source) \
  {#name, #unit, source, {#t2, #t3, #t4}, {g2, g3, g4}},
#include "costs.def"
};

enum { FAR_STEP = 16 }; /* bytes between elements up to which they stream at the full rate */

static uint64_t max_of(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

vm_time vm_cost_time(const vm_core *c, unsigned engine, uint64_t cycles) {
  /* floor(cycles * 10^12 / kHz) in fs, in two parts: the whole product would leave 64 bits from
   * 1.8 * 10^7 cycles on. */
  uint64_t khz = c->target->khz[engine], whole = cycles / khz * 1000000000000u;
  uint64_t rest = cycles % khz, million = 1000000;
  if (rest <= UINT64_MAX / 1000000000000u) return whole + rest * 1000000000000u / khz;
  /* On a clock above 18 GHz the product of the rest may do so too. */
  rest *= million;
  return whole + rest / khz * million + rest % khz * million / khz;
}

/* ---- What an instruction moves ------------------------------------------------------------ */

typedef struct traffic {               /* per partition */
  uint64_t n;                          /* elements of the longest operand */
  uint64_t sbuf_in, psum_in, psum_out; /* bytes */
  uint8_t sources, sbuf_sources;
  bool slow; /* 8-bit results or an inner dimension that is not dense: two elements per cycle */
  bool far;  /* an inner step of more than 16 bytes: half the rate */
  bool half; /* dense elements of 16 bits */
} traffic;

static bool dense(const vm_view *v) {
  /* A run of one element is dense, whatever its step. */
  return !v->place && (v->run <= 1 || v->run_step == v->esize);
}

bool vm_cost_far(const vm_view *v) {
  return v->run > 1 && (v->run_step > FAR_STEP || v->run_step < -FAR_STEP);
}

static bool is_fp8(unsigned dtype) {
  return isa_dtypes[dtype].cls == ISA_FLOAT && isa_dtype_bytes(dtype) == 1;
}

/* From gen4 the modes take fp8 as 16-bit elements. */
static unsigned width(const vm_core *c, const vm_view *v) {
  return c->target->gen >= ISA_GEN4 && is_fp8(v->dtype) ? 2 : v->esize;
}

static void add_operand(const vm_core *c, traffic *t, const vm_view *v, bool writes) {
  uint64_t bytes = v->elems * width(c, v);
  bool psum = v->space == ISA_PSUM;
  t->n = max_of(t->n, v->elems);
  /* All operands must be 16 bits and dense for the modes of two elements per cycle. */
  t->half = t->half && v->esize == 2 && dense(v);
  t->slow = t->slow || !dense(v) || (writes && width(c, v) == 1);
  t->far = t->far || vm_cost_far(v);
  /* Results in SBUF use no port that vector_stream counts. */
  if (writes) {
    t->psum_out += psum ? bytes : 0;
    return;
  }
  t->sources++;
  t->sbuf_sources += !psum;
  *(psum ? &t->psum_in : &t->sbuf_in) += bytes;
}

/* The tensors of an instruction; [P, 1] columns are read before the stream. This is a loop of its
 * own, not vm_each_view, because it runs once for each instruction and so saves 2 % of the host
 * instructions of tiny ones. */
static traffic traffic_of(const vm_core *c, const isa_insn *in, const vm_operands *a) {
  const isa_form *form = isa_form_of(in->op);
  traffic t = {.half = true};
  /* Only fields that name memory (a mask): most forms have two or three. */
  for (unsigned left = form->memory; left; left &= left - 1) {
    unsigned i = (unsigned)__builtin_ctz(left);
    const isa_field *f = &form->fields[i];
    /* Absent operands, and columns, which are read before the stream. */
    if (f->kind != ISA_K_AP || (f->arg & AP_COL) || !*(const isa_t_AP *)isa_member_c(in, f))
      continue;
    add_operand(c, &t, vm_operand_at(in, (vm_operands *)a, i), f->arg & AP_W);
  }
  return t;
}

/* Whether an instruction reads a [P, 1] column. */
static bool reads_column(const isa_insn *in) {
  const uint32_t column = AP_R | AP_COL;
  const isa_form *form = isa_form_of(in->op);
  for (unsigned left = form->memory; left; left &= left - 1) {
    const isa_field *f = &form->fields[__builtin_ctz(left)];
    const void *m = isa_member_c(in, f);
    if (f->kind == ISA_K_NUM ? ((const isa_num *)m)->kind == ISA_NUM_ap
                             : (f->arg & column) == column && *(const isa_t_AP *)m)
      return true;
  }
  return false;
}

/* ---- Streaming time, a function for each cost class --------------------------------------- */

typedef struct job {
  const vm_core *c;
  unsigned engine;
  const isa_insn *in;
  const vm_operands *a;
} job;

/* The first operand with that access, AP_R or AP_W, whatever the form of the job's instruction.
 * Every class that calls this has one. */
static const vm_view *operand(const job *j, uint32_t access) {
  int i = isa_field_of(j->in->op, ISA_K_AP, access);
  return vm_operand_at(j->in, (vm_operands *)j->a, (unsigned)i);
}
static const vm_view *dst_of(const job *j) { return operand(j, AP_W); }
static const vm_view *src_of(const job *j) { return operand(j, AP_R); }

/* The first operand of that kind. */
static const void *value_of(const job *j, unsigned kind) {
  int i = isa_field_of(j->in->op, kind, 0);
  return vm_operand_at(j->in, (vm_operands *)j->a, (unsigned)i);
}

/* The modes of a matmul, NULL for an instruction whose form has none; likewise for a load of
 * weights. */
static const struct vm_MATMUL *modes_of(const job *j) {
  return isa_ops[j->in->op].form == ISA_FORM_MATMUL ? &j->a->MATMUL : NULL;
}
static const struct vm_LDWEIGHTS *load_modes_of(const job *j) {
  return isa_ops[j->in->op].form == ISA_FORM_LDWEIGHTS ? &j->a->LDWEIGHTS : NULL;
}

static uint64_t paced(const traffic *t, uint64_t cycles) { return t->far ? 2 * cycles : cycles; }

/* Vector from gen3: the ports, and at most `limit` elements per cycle. Gen2 reads one source per
 * cycle from SBUF and has another port to PSUM. */
static uint64_t vector_stream(const job *j, const traffic *t, unsigned limit) {
  /* gen2: one element per cycle for each source in SBUF. */
  if (j->c->target->gen == ISA_GEN2) return t->n * (t->sbuf_sources > 1 ? 2 : 1);
  if (t->slow && limit > 2) limit = 2;
  /* Bytes per cycle of the two ports: 8 of SBUF, 4 of PSUM. */
  uint64_t ports = max_of(ceil_div(t->sbuf_in, 8), ceil_div(max_of(t->psum_in, t->psum_out), 4));
  return max_of(ports, ceil_div(t->n, limit));
}

/* Elementwise instructions: 4 per cycle on vector, 1 on the others, but 2 of 16 bits on gen4's
 * scalar engine. No text has a figure of gpsimd: it is taken to be at most as fast as vector is
 * without its modes, whose port it shares. */
static uint64_t elementwise(const job *j, const traffic *t) {
  if (j->engine == ISA_ENG_vector) return vector_stream(j, t, 4);
  if (j->engine == ISA_ENG_gpsimd) return vector_stream(j, t, 1);
  /* gen4's scalar engine takes two 16-bit elements per cycle. */
  bool twice = j->engine == ISA_ENG_scalar && j->c->target->gen >= ISA_GEN4 && t->half;
  return twice ? ceil_div(t->n, 2) : t->n;
}

static uint64_t stream_each(const job *j) {
  traffic t = traffic_of(j->c, j->in, j->a);
  return paced(&t, elementwise(j, &t));
}

/* An address that is an element of SBUF has a start-up of its own; an address in a register is the
 * sequencer's work. */
static uint64_t stream_copy(const job *j) {
  const isa_form *form = isa_form_of(j->in->op);
  bool finds = false;
  for (unsigned i = 0; i < form->nfields; i++) {
    const isa_field *f = &form->fields[i];
    isa_t_AP ap = f->kind == ISA_K_AP ? *(const isa_t_AP *)isa_member_c(j->in, f) : 0;
    finds = finds || (ap && j->c->code->aps[ap - 1].dyn[0].kind == ISA_DYN_elem);
  }
  return max_of(finds ? j->c->cost[VM_MIN_DYNAMIC] : 0, stream_each(j));
}

static uint64_t stream_set(const job *j) {
  traffic t = traffic_of(j->c, j->in, j->a);
  const vm_num *value = value_of(j, ISA_K_NUM);
  /* A fill with zeros of 16 bits is twice as fast on gen2. */
  bool zero = !value->v.at && isa_f32_bits(value->imm) == 0;
  if (j->engine == ISA_ENG_vector && j->c->target->gen == ISA_GEN2 && zero && t.half)
    return ceil_div(t.n, 2);
  return paced(&t, elementwise(j, &t));
}

static uint64_t stream_tt(const job *j) {
  traffic t = traffic_of(j->c, j->in, j->a);
  unsigned op = *(const vm_t_ALU *)value_of(j, ISA_K_ALU);
  /* gen2 adds and multiplies bfloat16 at full rate even from two sources in SBUF. */
  bool quick = t.half && dst_of(j)->dtype == ISA_bfloat16 &&
               (op == ISA_ALU_add || op == ISA_ALU_mult || op == ISA_ALU_subtract);
  if (quick && j->c->target->gen == ISA_GEN2 && j->engine == ISA_ENG_vector) return t.n;
  return paced(&t, elementwise(j, &t));
}

/* gpsimd's tensor_scalar is rsqrt, of four cycles per element. */
static uint64_t stream_ts(const job *j) {
  traffic t = traffic_of(j->c, j->in, j->a);
  return paced(&t, elementwise(j, &t)) * (j->engine == ISA_ENG_gpsimd ? 4 : 1);
}

static uint64_t stream_red(const job *j) {
  traffic t = traffic_of(j->c, j->in, j->a);
  return paced(&t, vector_stream(j, &t, 1));
}

static uint64_t stream_fold(const job *j) {
  unsigned op = *(const vm_t_ALU *)value_of(j, ISA_K_ALU);
  const vm_view *src = src_of(j);
  /* gen2 reduces dense bfloat16 by add and max at two per cycle. */
  bool quick = src->dtype == ISA_bfloat16 && dense(src) && (op == ISA_ALU_add || op == ISA_ALU_max);
  return quick && j->c->target->gen == ISA_GEN2 ? ceil_div(src->elems, 2) : stream_red(j);
}

/* The elements are written too: the registers are read out. */
static uint64_t stream_redacc(const job *j) { return stream_red(j) + j->c->cost[VM_ACC_EXTRA]; }

/* Source and predicate share gen2's port of SBUF. */
static uint64_t stream_pred(const job *j) {
  traffic t = traffic_of(j->c, j->in, j->a);
  return paced(&t, vector_stream(j, &t, 1));
}

static uint64_t stream_scan(const job *j) {
  traffic t = traffic_of(j->c, j->in, j->a);
  return paced(&t, max_of(2 * t.n, vector_stream(j, &t, 1)));
}

static uint64_t stream_rcp(const job *j) {
  traffic t = traffic_of(j->c, j->in, j->a);
  return paced(&t, (j->engine == ISA_ENG_scalar ? 1 : 8) * t.n);
}

static uint64_t stream_bnag(const job *j) { return ceil_div(13 * src_of(j)->elems, 3); }

static uint64_t stream_act(const job *j) {
  traffic t = traffic_of(j->c, j->in, j->a);
  return paced(&t, t.n);
}

static uint64_t stream_acc(const job *j) { return j->c->cost[VM_ACC_EXTRA]; }

static uint64_t stream_quad(const job *j) { return ceil_div(dst_of(j)->elems, 4); }

static uint64_t stream_ldw(const job *j) {
  const vm_view *src = src_of(j);
  const struct vm_LDWEIGHTS *modes = load_modes_of(j);
  /* Four columns of weights per cycle, or one of float32. */
  bool pairs = modes && modes->perf == ISA_PERF_double_row;
  return ceil_div(src->elems / (pairs ? 2 : 1) * (src->dtype == ISA_float32 ? 4 : 1), 4);
}

/* Cycles per row of the moving operand: fp32 takes two passes of two; one if it consists of zeros
 * and ones, and from gen3 on in transpose mode. */
static uint64_t row_cycles(const job *j) {
  const struct vm_MATMUL *modes = modes_of(j);
  if (!modes || modes->src.dtype != ISA_float32) return 1;
  bool turned = modes->transpose && j->c->target->gen >= ISA_GEN3;
  return modes->onezero || turned ? 2 : 4;
}

static uint64_t stream_mm(const job *j) {
  const struct vm_MATMUL *modes = modes_of(j);
  const vm_view *dst = dst_of(j);
  uint64_t least = j->c->cost[VM_MIN_MATMUL], n = dst->elems, m = dst->num[0];
  traffic t = {0};
  /* matmul_mx has no modes: a cycle for each column. */
  if (!modes) return max_of(least, n);
  add_operand(j->c, &t, &modes->src, false);
  if (modes->transpose) return paced(&t, row_cycles(j) * max_of(n, m < 64 ? m : 64));
  return max_of(least, paced(&t, n * row_cycles(j)));
}

/* The work of a matmul or matmul_mx. */
static vm_flops matmul_flops(const vm_core *c, const isa_insn *in, const vm_operands *a) {
  const job j = {c, ISA_ENG_tensor, in, a};
  const vm_view *dst = dst_of(&j), *src = src_of(&j);
  bool mx = isa_field_of(in->op, ISA_K_AP, AP_SCALES) >= 0;
  /* An x4 element is four of the contraction. */
  uint64_t lanes = mx ? VM_LANES : 1;
  vm_flops f = {.logical = 2 * lanes * dst->num[0] * src->num[0] * src->elems};
  vm_cost_id rate = mx                                 ? VM_PE_MX
                    : src->dtype == ISA_float32        ? VM_PE_FP32
                    : is_fp8(src->dtype)               ? VM_PE_FP8
                    : isa_dtype_bytes(src->dtype) == 1 ? VM_PE_INT8
                                                       : VM_PE_16;
  /* The cost row is a rate in percent of that of 16-bit elements. */
  f.adjusted = f.logical * 100 / c->cost[rate];
  if (rate == VM_PE_FP32 && row_cycles(&j) == 2) f.adjusted /= 2; /* one pass of the two */
  return f;
}

uint64_t vm_cost_peak_flops(const isa_target *t) {
  return (uint64_t)2 * ISA_PMAX * ISA_PMAX * t->khz[ISA_ENG_tensor] * 1000;
}

static uint64_t stream_out(const job *j) { return dst_of(j)->elems; }

/* n indices of e elements each, by the reference's formula: n * e / C with C = ((28 + 4 * e) / (4 *
 * e)) / min(4 / bytes, e). */
static uint64_t stream_gath(const job *j) {
  const struct vm_LOCAL_GATHER *a = &j->a->LOCAL_GATHER;
  /* As many of an index's elements at once as 4 bytes hold. */
  uint64_t e = a->elems_per_index ? a->elems_per_index : 1;
  uint64_t wide = 4u / a->src.esize < e ? 4u / a->src.esize : e;
  return ceil_div(a->dst.elems * 4 * e * wide, 28 + 4 * e);
}

static uint64_t stream_topk(const job *j) {
  return 4 * (uint64_t)j->a->TOPK.n + j->a->TOPK.val_dst.elems;
}

/* gpsimd's own DMA moves the whole tile, not the parts of the partitions in parallel. */
static uint64_t stream_gpdma(const job *j) {
  const vm_view *dst = dst_of(j);
  uint64_t bytes = dst->elems * dst->num[0] * dst->esize, rate = j->c->cost[VM_GP_DMA];
  if (!rate) return 0;
  uint64_t ps = bytes * 1000000 / rate; /* at most 128 KiB */
  return ceil_div(ps * j->c->target->khz[j->engine], 1000000000);
}

static uint64_t stream_cust(const job *j) {
  const vm_hooks *h = &j->c->run->hooks;
  return h->custom_cycles ? h->custom_cycles(h->custom_ud, &j->a->CUSTOM) : 0;
}

static uint64_t stream_none(const job *j) {
  (void)j;
  return 0;
}

static uint64_t (*const streams[ISA_NCOSTS])(const job *j) = {
#define TIME(name, function, modes, lines) stream_##function,
#include "../../isa/times.def"
};

vm_cost_span vm_cost(const vm_core *c, unsigned engine, const isa_insn *in, const vm_operands *a) {
  static const uint8_t overhead[] = {VM_OVH_TENSOR, VM_OVH_VECTOR, VM_OVH_SCALAR, VM_OVH_GPSIMD};
  static const uint8_t latency[] = {VM_LAT_TENSOR, VM_LAT_VECTOR, VM_LAT_SCALAR, VM_LAT_GPSIMD};
  const job j = {c, engine, in, a};
  unsigned class = isa_ops[in->op].cost;
  vm_cost_span s = {.stream = streams[class](&j)};
  if (engine == ISA_ENG_sync) /* has no data path: the verifier refuses it */
    return s;
  if (class == ISA_COST_LDW) {
    s.issue = s.stream;
    s.latency = s.stream + c->cost[VM_LAT_WEIGHTS];
    return s;
  }
  /* A [P, 1] operand of vector is read before the stream (COLUMN). */
  uint64_t before = engine == ISA_ENG_vector && reads_column(in) ? c->cost[VM_COLUMN] : 0;
  s.issue = s.stream + before + c->cost[overhead[engine]];
  s.latency = s.stream + before + c->cost[latency[engine]];
  return s;
}

enum { ONE, FAST };
static const uint8_t speeds[ISA_NCOSTS] = {
#define TIME(name, function, modes, lines) modes,
#include "../../isa/times.def"
};

/* The elements that an instruction of vector streams in fewer cycles than elements; 0: it is in no
 * such mode. */
static uint64_t in_mode(const job *j, uint64_t cycles) {
  if (j->engine != ISA_ENG_vector || j->c->target->gen < ISA_GEN3 ||
      speeds[isa_ops[j->in->op].cost] == ONE)
    return 0;
  /* Operand 0 is the destination of every form of these classes. */
  const vm_view *dst = vm_operand_at(j->in, (vm_operands *)j->a, 0);
  return cycles && cycles < dst->elems ? dst->elems : 0;
}

/* Operands count as a whole, even if an instruction chooses from one. */
static void count_traffic(void *ud, const isa_operand *o, vm_view *v) {
  vm_effort *x = ud;
  uint64_t bytes = (uint64_t)v->num[0] * v->elems * v->esize;
  if (!v->at || (v->space != ISA_SBUF && v->space != ISA_PSUM)) return;
  if (o->flags & AP_R) x->traffic[v->space == ISA_PSUM][0] += bytes;
  if (o->flags & AP_W) x->traffic[v->space == ISA_PSUM][1] += bytes;
}

vm_effort vm_cost_effort(const vm_core *c, unsigned engine, const isa_insn *in,
                         const vm_operands *a) {
  vm_effort x = {.span = vm_cost(c, engine, in, a)};
  x.stream = vm_cost_time(c, engine, x.span.stream);
  x.issue = vm_cost_time(c, engine, x.span.issue);
  x.latency = vm_cost_time(c, engine, x.span.latency);
  x.overhead = vm_cost_time(c, engine, x.span.issue - x.span.stream);
  /* Sources have been read when half of the latency behind the stream is over. */
  x.read = vm_cost_time(c, engine, x.span.stream + (x.span.latency - x.span.stream) / 2);
  x.fast = in_mode(&(job){c, engine, in, a}, x.span.stream);
  vm_each_view(c, in, a, count_traffic, &x);
  /* Only products have flops. */
  if (isa_ops[in->op].cost == ISA_COST_MM) x.flops = matmul_flops(c, in, a);
  return x;
}
