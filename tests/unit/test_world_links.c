/* Routes of every instance, and messages on links. */
#include "../../vm/world/link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const vm_time NS = VM_NS;

/* The messages come in next to no time, but not in none. */
static vm_time ns(vm_time t) { return (t + NS / 2) / NS; }

static vm_links_options options_of(const char *name, uint32_t instances) {
  const isa_instance *of = isa_instance_find(name);
  assert_non_null(of);
  return (vm_links_options){.of = of,
                            .instances = instances,
                            .ranks_of_device = 1,
                            .source = 1000000000,
                            .hop = 100 * NS,
                            .latency = 200 * NS,
                            .efa = 15000 * NS};
}

static void open_links(vm_links *l, const vm_links_options *o) {
  isa_alloc al = isa_alloc_default();
  isa_error e = {0};
  assert_int_equal(vm_links_open(l, &al, o, &e), ISA_OK);
}

static uint32_t along(uint32_t a, uint32_t b, uint32_t n) {
  uint32_t up = (b + n - a) % n;
  return up < n - up ? up : n - up;
}

/* How many links the shortest way has. */
static uint32_t distance(const isa_instance *i, uint32_t a, uint32_t b) {
  uint32_t xy = i->x * i->y;
  if (a / i->devices != b / i->devices || i->links == ISA_LINKS_SWITCH) return 2;
  return along(a % i->x, b % i->x, i->x) + along(a / i->x % i->y, b / i->x % i->y, i->y) +
         along(a / xy % i->z, b / xy % i->z, i->z);
}

/* Follows the route; how many links it has. Each begins where the one before ends. */
static uint32_t follow(const vm_links *l, uint32_t from, uint32_t to, uint32_t *load) {
  uint32_t n = 0, at = from;
  for (const vm_link *x = vm_links_route(l, from, to); x; x = vm_links_after(l, x, to)) {
    assert_int_equal(x->from, at);
    at = x->to;
    if (load) load[x - l->v]++;
    assert_true(++n < 64);
  }
  assert_int_equal(at, to);
  return n;
}

static void test_routes(void **state) {
  (void)state;
  for (unsigned k = 0; isa_instance_at(k); k++) {
    const isa_instance *i = isa_instance_at(k);
    vm_links_options o = options_of(i->name, i->efa ? 2 : 1);
    uint32_t n = i->devices * o.instances;
    vm_links l;
    open_links(&l, &o);
    if (i->links == ISA_LINKS_TORUS) assert_int_equal(i->x * i->y * i->z, i->devices);
    for (uint32_t a = 0; a < n; a++)
      for (uint32_t b = 0; b < n; b++)
        if (a != b) assert_int_equal(follow(&l, a, b, NULL), distance(i, a, b));
    vm_links_close(&l);
  }
}

/* One message of each device to each other one loads all links of a torus alike. */
static void test_ties(void **state) {
  (void)state;
  vm_links_options o = options_of("trn1.32xlarge", 1);
  vm_links l;
  uint32_t load[64] = {0};
  open_links(&l, &o);
  assert_int_equal(l.n, 64);
  for (uint32_t a = 0; a < 16; a++)
    for (uint32_t b = 0; b < 16; b++)
      if (a != b) follow(&l, a, b, load);
  for (unsigned i = 0; i < 64; i++) assert_int_equal(load[i], 8);
  vm_links_close(&l);
}

static vm_parcel message(uint32_t src, uint32_t dst, uint64_t seq) {
  return (vm_parcel){.m = {.src = src, .dst = dst, .seq = seq}};
}

static void test_shared_link(void **state) {
  (void)state;
  vm_links_options o = options_of("trn1.32xlarge", 1);
  vm_links l;
  vm_parcel p = message(0, 1, 0), q = message(0, 1, 1), out;
  open_links(&l, &o);
  assert_true(vm_links_enter(&l, &q, 48000, 0, 1000 * NS));
  assert_true(vm_links_enter(&l, &p, 48000, 0, 1000 * NS));
  assert_true(vm_links_step(&l, &out));
  assert_int_equal(out.m.seq, 0);
  assert_int_equal(ns(out.m.time), 1000 + 1000 + 200);
  assert_true(vm_links_step(&l, &out));
  assert_int_equal(out.m.seq, 1);
  assert_int_equal(ns(out.m.time), 1000 + 2000 + 200);
  const vm_link *x = vm_links_route(&l, 0, 1);
  assert_int_equal(x->bytes, 96000);
  assert_true(x->waiting > 95990 && x->waiting <= 96000);
  assert_int_equal(x->busy, 2000 * NS);
  vm_links_close(&l);
}

/* Packets of two messages take turns; they end on their last link. A packet that a failed link has
 * stopped stops its message, though the link is whole again. */
static void test_packets(void **state) {
  (void)state;
  vm_link_change c[] = {{1, 2, 0, 1500 * NS}, {1, 2, 1000, 2500 * NS}};
  for (uint32_t changes = 0; changes <= 2; changes += 2) {
    vm_links_options o = options_of("trn1.32xlarge", 1);
    vm_links l;
    o.changes = c;
    o.nchanges = changes;
    o.source = 48000;
    open_links(&l, &o);
    for (uint32_t k = 0; k < 3; k++)
      for (uint32_t src = 0; src < 2; src++) {
        vm_parcel p = message(src, 2, k);
        p.m.updates = k < 2 ? VM_MESSAGE_PACKET : 1;
        assert_true(vm_links_enter(&l, &p, 48000, k < 2 ? 0 : 96000, (k + 1) * 1000 * NS));
      }
    vm_parcel out;
    uint32_t n = 0;
    while (vm_links_next(&l) != UINT64_MAX) {
      if (!vm_links_step(&l, &out)) continue;
      assert_int_equal(out.m.seq, 2);
      assert_int_equal(ns(out.m.time), 1000 * (5 + n++) + 200);
    }
    assert_int_equal(n, changes ? 0 : 2);
    assert_int_equal(vm_links_route(&l, 1, 2)->messages, changes ? 0 : 2);
    assert_int_equal(l.lost, changes ? 4 : 0);
    vm_links_close(&l);
  }
}

/* A message that comes as slowly as a link is fast does not wait, and passes two links at once. */
static void test_cut_through(void **state) {
  (void)state;
  vm_links_options o = options_of("trn1.32xlarge", 1);
  vm_links l;
  vm_parcel p = message(0, 5, 0), out;
  o.source = 48000;
  open_links(&l, &o);
  assert_true(vm_links_enter(&l, &p, 96000, 0, 5000 * NS));
  assert_false(vm_links_step(&l, &out));
  assert_int_equal(vm_links_next(&l), 5100 * NS);
  assert_true(vm_links_step(&l, &out));
  assert_int_equal(ns(out.m.time), 5300);
  vm_links_close(&l);
}

/* The same arrivals whatever the order in which messages were handed to the links. */
static void test_order(void **state) {
  (void)state;
  enum { N = 500 };
  vm_links_options o = options_of("trn2u.48xlarge", 1);
  vm_time first[N] = {0};
  for (unsigned turn = 0; turn < 3; turn++) {
    vm_links l;
    vm_parcel out;
    open_links(&l, &o);
    for (uint32_t k = 0; k < N; k++) {
      uint32_t i = turn == 0 ? k : turn == 1 ? N - 1 - k : k * 7 % N, to = i * 31 % 64;
      vm_parcel p = message(i * 13 % 64, to == i * 13 % 64 ? (to + 1) % 64 : to, i);
      assert_true(vm_links_enter(&l, &p, 1000 + i * 997 % 60000, 0, (i * 389 % 1000) * NS));
    }
    while (vm_links_next(&l) != UINT64_MAX)
      if (vm_links_step(&l, &out)) {
        if (turn == 0) first[out.m.seq] = out.m.time;
        assert_int_equal(out.m.time, first[out.m.seq]);
      }
    vm_links_close(&l);
  }
  for (unsigned i = 0; i < N; i++) assert_true(first[i] > 0);
}

static void test_changes(void **state) {
  (void)state;
  vm_links_options o = options_of("trn1.32xlarge", 1);
  vm_link_change c[] = {{0, 1, 0, 0}, {4, 5, 500, 1000 * NS}, {8, 9, 0, 2000 * NS}};
  vm_links l;
  vm_parcel p = message(4, 5, 0), q = message(8, 9, 0), out;
  o.changes = c;
  o.nchanges = 3;
  open_links(&l, &o);
  assert_int_equal(follow(&l, 0, 1, NULL), 3);
  assert_int_equal(follow(&l, 1, 0, NULL), 3);
  assert_int_equal(follow(&l, 8, 9, NULL), 1);
  assert_true(vm_links_enter(&l, &p, 48000, 0, 1000 * NS));
  assert_true(vm_links_step(&l, &out));
  assert_int_equal(ns(out.m.time), 1000 + 2000 + 200);
  assert_true(vm_links_enter(&l, &q, 48, 0, 1999 * NS));
  assert_true(vm_links_step(&l, &out));
  assert_true(vm_links_enter(&l, &q, 48, 0, 2000 * NS));
  assert_false(vm_links_step(&l, &out));
  assert_int_equal(l.lost, 1);
  assert_int_equal(l.why.a, 8);
  vm_links_close(&l);
}

static void test_no_link(void **state) {
  (void)state;
  vm_links_options o = options_of("trn1.32xlarge", 1);
  vm_link_change c = {0, 5, 0, 0};
  isa_alloc al = isa_alloc_default();
  isa_error e = {0};
  vm_links l;
  o.changes = &c;
  o.nchanges = 1;
  assert_int_equal(vm_links_open(&l, &al, &o, &e), ISA_ARG);
  assert_string_equal(e.text,
                      "there is no link 0-5 in trn1.32xlarge; device 0 has links to 1, 3, 4, 12");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_routes),      cmocka_unit_test(test_ties),
      cmocka_unit_test(test_shared_link), cmocka_unit_test(test_cut_through),
      cmocka_unit_test(test_order),       cmocka_unit_test(test_changes),
      cmocka_unit_test(test_no_link),     cmocka_unit_test(test_packets),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
