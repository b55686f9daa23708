/* --check overlap: tiles that share bytes without being an overlay. The assembler refuses them, so
 * here one tile of a program is moved onto another after it was assembled. */
#include "vm_bed.h"
#include "../../isa/program.h"

/* The program with tile `name` at byte `offset` of its partitions. */
static void move_tile(bed *b, const char *name, uint32_t offset) {
  void *data = NULL;
  size_t n = 0;
  isa_alloc al = isa_alloc_default();
  isa_buf moved;
  assert_int_equal(soma_program_save(b->m, b->p, &data, &n), SOMA_OK);
  isa_program *p = isa_image_read(&al, data, n, NULL);
  assert_non_null(p);
  for (uint32_t i = 0; i < p->ntiles; i++) {
    if (strcmp(p->tiles[i].name, name) != 0) continue;
    int64_t by = (int64_t)offset - p->tiles[i].offset;
    p->tiles[i].offset = offset;
    for (uint32_t k = 0; k < p->cores[0].naps; k++)
      if (p->cores[0].aps[k].space != ISA_HBM && p->cores[0].aps[k].base == i + 1)
        p->cores[0].aps[k].offset += by;
  }
  isa_buf_init(&moved, &al);
  assert_true(isa_image_write(p, &moved));
  isa_program_free(p);
  soma_program_free(b->p);
  soma_bytes_free(data);
  if (soma_program_load(b->m, moved.data, moved.len, &b->p) != SOMA_OK)
    fail_msg("%s", soma_error(b->m));
  isa_buf_free(&moved);
}

#define TILES                                 \
  "target trn2\n"                             \
  "h tensor float32[64, 8]\n"                 \
  "a tile sbuf int32[8, 1], at=[0, 0]\n"      \
  "b tile sbuf int32[8, 1], at=[0, 64]\n"     \
  "t tile sbuf float32[8, 8], at=[0, 1024]\n" \
  "s sem\n"                                   \
  "q queue dge=swdge\n"

/* What the check says of a program whose tile b has been moved to byte `offset`; NULL: nothing. */
static void expect(const char *body, uint32_t offset, const char *found) {
  char text[1024];
  soma_finding f;
  soma_options o = SOMA_OPTIONS_INIT;
  o.checks = 1u << SOMA_CHECK_OVERLAP;
  snprintf(text, sizeof text, TILES "section gpsimd\n%s halt\n", body);
  bed b = bed_open(&o, text);
  move_tile(&b, "b", offset);
  bed_run(&b, found ? SOMA_CHECK : SOMA_OK);
  if (found) {
    assert_int_equal(soma_run_finding(b.r, 0, &f), SOMA_OK);
    if (!strstr(f.text, found)) fail_msg("%s", f.text);
  }
  bed_close(&b);
}

static const char read_after[] = "tile a is read after tile b was written, and they share bytes";

static void an_operand(void **state) {
  (void)state;
  const char *body = " memset a, 1\n memset b, 2\n tensor_copy t[:, 0:1], a\n";
  expect(body, 64, NULL);
  expect(body, 0, read_after);
}

static void the_index_of_a_gather(void **state) {
  (void)state;
  const char *body = " memset a, 1\n memset b, 2\n drain\n"
                     " dma_copy t, h[0:8, :].gather(a), queue=q $s\n nop $s>=16\n";
  expect(body, 64, NULL);
  expect(body, 0, read_after);
}

static void the_element_of_an_offset(void **state) {
  (void)state;
  const char *body = " memset a, 1\n memset b, 2\n drain\n"
                     " dma_copy t[0:1, :], h[(a[0:1, 0:1]):+1, :], queue=q $s\n"
                     " nop $s>=16\n";
  expect(body, 64, NULL);
  expect(body, 0, read_after);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_operand),
      cmocka_unit_test(the_index_of_a_gather),
      cmocka_unit_test(the_element_of_an_offset),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
