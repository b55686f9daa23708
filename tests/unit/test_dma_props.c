/* Random transfers against a model that goes element by element: any strides on both sides,
 * reshapes through equal counts, conversions, index vectors with and without skipped rows,
 * accumulation, transposes. Several transfers a program, over two tensors and two tiles that are
 * compared whole. usage: test_dma_props [cases [seed]] */
#include "dma_bed.h"

#include "../../isa/bytes.h"
#include "../../vm/simd/loops.h"

enum { HBM = 4096, COLS = 64, EACH = 10, LINE = 400, ROWS = 64 };

static uint64_t state;
static uint32_t any(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33);
}
static int below(int n) { return (int)(any() % (uint32_t)n); }

typedef struct object { /* a tensor of [64, 64] or a tile of [128, 64] */
  const char *name;
  bool hbm;
  unsigned dtype, esize;
  uint8_t bytes[128 * COLS * 8];
} object;

static size_t size_of(const object *o) { return (o->hbm ? HBM : 128 * COLS) * o->esize; }

typedef struct pattern {
  object *o;
  int part, nparts, ndim, num[5], step[5], offset;
  int gathered; /* dimension with an index vector, -1 none */
  int stride;   /* of that, in elements */
  const uint32_t *index;
} pattern;

static int total(const pattern *p) {
  int n = p->nparts;
  for (int d = 0; d < p->ndim; d++) n *= p->num[d];
  return n;
}

/* Element e in row-major order; NULL when its row is skipped. */
static uint8_t *element(const pattern *p, int e) {
  int at = p->offset, per = total(p) / p->nparts, i = e % per;
  for (int d = p->ndim; d-- > 0; i /= p->num[d]) {
    int k = i % p->num[d];
    if (d == p->gathered && p->index[k] >= ROWS) return NULL;
    at += d == p->gathered ? (int)p->index[k] * p->stride : k * p->step[d];
  }
  if (!p->o->hbm) at += (p->part + e / per) * COLS;
  return p->o->bytes + at * (int)p->o->esize;
}

static float value(const object *o, const uint8_t *at) {
  uint32_t bits = 0;
  memcpy(&bits, at, o->esize); /* little-endian, as the machine */
  return isa_to_f32(o->dtype, bits);
}

/* What a transfer of n elements does; source element k is that of order[k]. */
static void model(const pattern *d, const pattern *s, const int *order, int n, bool add) {
  static uint8_t copy[sizeof s->o->bytes];
  memcpy(copy, s->o->bytes, size_of(s->o));
  for (int k = 0; k < n; k++) {
    uint8_t *to = element(d, k), *from = element(s, order ? order[k] : k);
    if (!to || !from) continue;
    from = copy + (from - s->o->bytes);
    if (!add && d->o->dtype == s->o->dtype) {
      memcpy(to, from, d->o->esize);
      continue;
    }
    float x = value(s->o, from);
    if (add) x = vm_alu_f32(ISA_ALU_add, value(d->o, to), x);
    uint32_t bits = isa_from_f32(d->o->dtype, x, 0);
    memcpy(to, &bits, d->o->esize);
  }
}

/* ---- Patterns ----------------------------------------------------------------------------- */

/* Steps and offset within `room` elements: nested when the elements must differ. False: the
 * pattern does not fit. */
static bool place(pattern *p, bool distinct, int room) {
  int perm[5], lo = 0, hi = 0, reached = 0;
  for (int d = 0; d < p->ndim; d++) {
    int j = below(d + 1);
    perm[d] = perm[j];
    perm[j] = d;
  }
  bool dense = below(3) == 0;
  for (int i = 0; i < p->ndim; i++) {
    int d = dense ? p->ndim - 1 - i : perm[i];
    if (d == p->gathered) {
      p->step[d] = below(9) - 4; /* of no consequence */
      continue;
    }
    int step = reached + 1 + (dense ? 0 : below(3));
    if (!distinct && below(2)) step = below(11) - 5;
    reached += step > 0 ? step * (p->num[d] - 1) : 0;
    p->step[d] = !dense && below(3) == 0 ? -step : step;
    *(p->step[d] < 0 ? &lo : &hi) += p->step[d] * (p->num[d] - 1);
  }
  if (hi - lo >= room) return false;
  p->offset = below(room - (hi - lo)) - lo;
  return true;
}

/* Cuts a list of factors into at most `most` dimensions. */
static void cut(pattern *p, const int *factor, int n, int most) {
  p->ndim = 1;
  p->num[0] = 1;
  for (int i = 0; i < n; i++) {
    if (p->ndim < most && below(2) && p->num[p->ndim - 1] > 1) p->num[p->ndim++] = 1;
    p->num[p->ndim - 1] *= factor[i];
  }
}

/* A pattern of o of the given factors. */
static bool make(pattern *p, object *o, const int *factor, int n, bool distinct) {
  *p = (pattern){.o = o, .nparts = 1, .gathered = -1};
  int first = 0;
  if (o->hbm) {
    cut(p, factor, n, 5);
    return place(p, distinct, HBM);
  }
  for (int take = below(n + 1); first < take && p->nparts * factor[first] <= 128; first++)
    p->nparts *= factor[first];
  p->part = below(129 - p->nparts);
  cut(p, factor + first, n - first, 4);
  return place(p, distinct, COLS);
}

/* The same with an index vector of dimension 0, or for a source of dimension 1 too. */
static bool make_gather(pattern *p, object *o, const int *factor, int n, bool distinct,
                        uint32_t *index, bool skip) {
  *p = (pattern){.o = o, .nparts = 1, .index = index};
  cut(p, factor, n, 5);
  p->gathered = distinct || p->ndim == 1 ? 0 : below(2);
  p->stride = p->gathered ? 1 : COLS;
  if (p->num[p->gathered] > (distinct ? ROWS : 128) ||
      !place(p, distinct, p->gathered ? HBM - ROWS : COLS))
    return false;
  for (int k = 0; k < p->num[p->gathered]; k++)
    index[k] = distinct ? (uint32_t)(k * 37 % ROWS) : (uint32_t)below(ROWS);
  for (int k = 0; skip && k < p->num[p->gathered]; k++)
    if (below(4) == 0) index[k] = ROWS + any() % 1000 * 4294967u;
  return true;
}

/* ---- Text --------------------------------------------------------------------------------- */

static int put_pattern(char *out, size_t size, const pattern *p, int line) {
  int at = snprintf(out, size, "%s", p->o->name);
  if (!p->o->hbm)
    at += snprintf(out + at, size - (size_t)at, "[%d:%d]", p->part, p->part + p->nparts);
  for (int d = 0; d < p->ndim; d++)
    at += snprintf(out + at, size - (size_t)at, "%s[%d,%d]", d ? "," : ".ap([", p->step[d],
                   p->num[d]);
  at += snprintf(out + at, size - (size_t)at, "], offset=%d)", p->offset);
  if (p->gathered >= 0)
    at += snprintf(out + at, size - (size_t)at, ".gather(ix[0:%d, %d:%d], %d)", p->num[p->gathered],
                   line, line + 1, p->gathered);
  return at;
}

static void put_line(char *out, const char *op, const pattern *d, const pattern *s, int line,
                     const char *tail) {
  size_t size = LINE;
  int at = snprintf(out, size, " %s ", op);
  at += put_pattern(out + at, size - (size_t)at, d, line);
  at += snprintf(out + at, size - (size_t)at, ", ");
  at += put_pattern(out + at, size - (size_t)at, s, line);
  at += snprintf(out + at, size - (size_t)at, ", queue=%s $s\n nop $s>=%d\n", tail, 16 * line + 32);
  assert_true(at < LINE);
}

/* ---- Cases -------------------------------------------------------------------------------- */

static bool converts(unsigned d) { return isa_dtypes[d].cls != ISA_PACK && isa_dtype_bytes(d) < 8; }

static bool copy_case(object *objects, uint32_t *index, int line, char *out) {
  static const int factors[] = {2, 2, 3, 4, 5, 7, 8, 16};
  int f[5], n = 1 + below(5), d = below(4), s = (d + 1 + below(3)) % 4;
  object *dst = &objects[d], *src = &objects[s];
  for (int i = 0; i < n; i++) f[i] = factors[below(8)];
  bool same = dst->dtype == src->dtype, can = converts(dst->dtype) && converts(src->dtype);
  if (!same && !can) return false;
  pattern to, from;
  bool gather = src->hbm && below(3) == 0, scatter = !gather && dst->hbm && below(3) == 0;
  bool skip = (gather || scatter) && below(2), add = can && below(4) == 0;
  if (!(scatter ? make_gather(&to, dst, f, n, true, index, skip) : make(&to, dst, f, n, true)) ||
      !(gather ? make_gather(&from, src, f, n, false, index, skip) : make(&from, src, f, n, false)))
    return false;
  char tail[60];
  bool software = gather || scatter || add || below(2);
  snprintf(tail, sizeof tail, "%s%s%s", software ? "qs" : "qn", skip ? ", oob=skip" : "",
           add ? ", op=add" : "");
  put_line(out, "dma_copy", &to, &from, line, tail);
  model(&to, &from, NULL, total(&to), add);
  return true;
}

/* A static transpose into a tile; the sizes of the source are axes of the destination's. */
static bool transpose_case(object *objects, int line, char *out) {
  static const uint8_t axes[5][4] = {{0}, {0}, {1, 0}, {2, 1, 0}, {3, 1, 2, 0}};
  int rank = 2 + below(3), size[4], order[4096];
  object *dst = &objects[2 + below(2)], *src = &objects[below(4)];
  if (dst == src || dst->dtype != src->dtype || (dst->esize != 2 && dst->esize != 4)) return false;
  pattern to = {.o = dst, .gathered = -1}, from = {.o = src, .gathered = -1, .nparts = 1};
  for (int i = 0; i < rank; i++) size[i] = 1 + below(rank == 2 ? 40 : 7);
  from.ndim = src->hbm ? rank : rank - 1;
  for (int i = 0; i < from.ndim; i++) from.num[i] = size[i + rank - from.ndim];
  to.nparts = size[axes[rank][0]];
  to.ndim = rank - 1;
  for (int i = 1; i < rank; i++) to.num[i - 1] = size[axes[rank][i]];
  if (!src->hbm) from.nparts = size[0];
  from.part = src->hbm ? 0 : below(129 - from.nparts);
  to.part = below(129 - to.nparts);
  if (total(&to) > 4096 || !place(&to, true, COLS) || !place(&from, false, src->hbm ? HBM : COLS))
    return false;
  for (int k = 0; k < total(&to); k++) {
    int i = k, e = 0, at[4];
    for (int a = rank; a-- > 0; i /= size[axes[rank][a]])
      at[axes[rank][a]] = i % size[axes[rank][a]];
    for (int a = 0; a < rank; a++) e = e * size[a] + at[a];
    order[k] = e;
  }
  put_line(out, "dma_transpose", &to, &from, line, "qn");
  model(&to, &from, order, total(&to), false);
  return true;
}

/* A type for another object beside the first: one that converts to it where there is such. */
static unsigned some_type(unsigned first) {
  unsigned d = 0;
  if (first && (!converts(first) || below(3) == 0)) return first;
  do d = 1 + any() % (ISA_NDTYPES - 1);
  while (first && !converts(d));
  return d;
}

static void compare(bed *b, const object *o, const char *text) {
  static uint8_t got[sizeof o->bytes];
  size_t row = COLS * o->esize;
  if (o->hbm)
    assert_int_equal(soma_fetch(b->r, o->name, got, HBM * o->esize), SOMA_OK);
  else
    for (uint32_t p = 0; p < 128; p++) tile_read(b, o->name, p, 0, 1, got + p * row, row);
  size_t n = size_of(o);
  for (size_t i = 0; i < n && memcmp(got, o->bytes, n) != 0; i++)
    if (got[i] != o->bytes[i]) fail_msg("%s element %zu differs\n%s", o->name, i / o->esize, text);
}

/* A program of EACH transfers over freshly filled objects. */
static void program(soma_machine *m) {
  static object objects[4] = {
      {.name = "a", .hbm = true}, {.name = "c", .hbm = true}, {.name = "t"}, {.name = "u"}};
  static uint32_t index[EACH][128], column[128 * EACH];
  static char text[EACH * LINE + 1000];
  const char *names[4];
  for (int i = 0; i < 4; i++) {
    object *o = &objects[i];
    o->dtype = some_type(i ? objects[0].dtype : 0);
    o->esize = isa_dtype_bytes(o->dtype);
    names[i] = isa_dtypes[o->dtype].name;
    for (size_t k = 0; k < size_of(o); k += 4) isa_put32(o->bytes + k, any() ^ any() << 16);
    for (size_t k = 0; o->dtype == ISA_bool && k < size_of(o); k++) o->bytes[k] &= 1;
  }
  static object start[4];
  memcpy(start, objects, sizeof start);
  int at =
      snprintf(text, sizeof text,
               "target trn2\na tensor %s[64, 64], input\nc tensor %s[64, 64], input\n"
               "i tensor uint32[128, %d], input\nt tile sbuf %s[128, 64]\nu tile sbuf %s[128, 64]\n"
               "ix tile sbuf uint32[128, %d]\ns sem\nqs queue dge=swdge\nqn queue dge=none\n"
               "section gpsimd\n dma_copy ix, i, queue=qs $s\n nop $s>=16\n",
               names[0], names[1], EACH, names[2], names[3], EACH);
  /* Four types that do not convert to one another leave little to do: then fewer transfers. */
  for (int line = 0, tries = 0; line < EACH && tries < 1000; tries++) {
    char out[LINE];
    bool made =
        below(6) ? copy_case(objects, index[line], line, out) : transpose_case(objects, line, out);
    if (!made) continue;
    at += snprintf(text + at, sizeof text - (size_t)at, "%s", out);
    line++;
  }
  snprintf(text + at, sizeof text - (size_t)at, " halt\n");
  for (int k = 0; k < 128 * EACH; k++) column[k] = index[k % EACH][k / EACH];
  bed b = bed_on(m, text);
  bed_bind(&b, "a", (soma_dtype)start[0].dtype, 64, 64, start[0].bytes);
  bed_bind(&b, "c", (soma_dtype)start[1].dtype, 64, 64, start[1].bytes);
  bed_bind(&b, "i", SOMA_UINT32, 128, EACH, column);
  bed_start(&b);
  for (int i = 2; i < 4; i++)
    for (uint32_t p = 0; p < 128; p++)
      tile_write(&b, start[i].name, p, 0, 1, start[i].bytes + p * COLS * start[i].esize,
                 COLS * start[i].esize);
  if (soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0) != SOMA_OK)
    fail_msg("%s\n%s", soma_error(b.m), text);
  for (int i = 0; i < 4; i++) compare(&b, &objects[i], text);
  soma_run_free(b.r);
  soma_unbind(m, b.p);
  soma_program_free(b.p);
}

static int cases;
static unsigned long long seed = 1;

static void random_transfers(void **unused) {
  (void)unused;
  soma_machine *m;
  state = seed;
  assert_int_equal(soma_machine_new(NULL, &m), SOMA_OK);
  for (int i = 0; i < cases; i += EACH) program(m);
  soma_machine_free(m);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_transfers)};
  cases = argc > 1 ? atoi(argv[1]) : 100000;
  if (argc > 2) seed = strtoull(argv[2], NULL, 0);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
