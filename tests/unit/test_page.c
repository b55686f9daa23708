/* The page of a run, as the library writes it; what it does in a browser is tests/ui. */
#include "record_bed.h"

static void the_page_stands_alone(void **state) {
  (void)state;
  text got = {0};
  bed b = bed_open(NULL, three);
  soma_recorder *r = recorder_of(NULL, story, STORY);
  assert_int_equal(soma_write_html(r, b.p, NULL, "a <title>", add_text, &got), SOMA_OK);
  soma_recorder_free(r);
  bed_close(&b);
  char *data = strstr(got.s, "type=\"application/json\">");
  assert_non_null(data);
  data += strlen("type=\"application/json\">");
  char *end = strstr(data, "</script>");
  assert_non_null(end);
  *end = 0;
  assert_true(json_ok(data));
  assert_non_null(strstr(data, "\"title\":\"a \\u003ctitle>\""));
  /* The wait on copied follows from its update, one event ago. */
  assert_non_null(strstr(data, "\n5,4,2,1,0,0,420000,0,1"));
  *end = '<';
  assert_int_equal(count_of(got.s, "://"), 0); /* nothing is fetched */
  assert_int_equal(
      count_of(got.s, "@style") + count_of(got.s, "@script") + count_of(got.s, "@data"), 0);
  free(got.s);
}

/* What the page says of a run: `what` is where the member begins. */
static void page_says(const text *page, const char *what) {
  if (!strstr(page->s, what)) fail_msg("the page has no %s", what);
}

static void the_page_of_a_run(const char *source, bool causes, uint32_t checks, text *out) {
  soma_recorder *r = recorder_of(NULL, NULL, 0);
  soma_options o = SOMA_OPTIONS_INIT;
  soma_stats s;
  o.event = soma_recorder_event;
  o.event_ud = r;
  o.causes = causes;
  o.checks = checks;
  bed b = bed_open(&o, source);
  assert_int_equal(soma_run_start(b.m, b.p, &b.r), SOMA_OK);
  soma_run_until(b.r, SOMA_END, SOMA_SYNC, 0);
  soma_run_stats(b.r, &s, sizeof s);
  soma_recorder_stats(r, &s, sizeof s);
  assert_int_equal(soma_write_html(r, b.p, b.r, "a \"run\"", add_text, out), SOMA_OK);
  char *data = strstr(out->s, "type=\"application/json\">") + strlen("type=\"application/json\">");
  char *end = strstr(data, "</script>");
  *end = 0;
  assert_true(json_ok(data));
  *end = '<';
  soma_recorder_free(r);
  bed_close(&b);
}

static void the_page_has_the_path_and_the_fault(void **state) {
  (void)state;
  char stuck[sizeof three + 16];
  text got = {0};
  the_page_of_a_run(three, true, 0, &got);
  /* It begins with the memset on vector, engine 1, which starts when the run does. */
  page_says(&got, "\"path\":{\"steps\":[\n");
  page_says(&got, "\"causes\":[\"start of the run\"");
  page_says(&got, "\"findings\":0,\"marks\":[]");
  page_says(&got, "\"figures\":{\"mfu\":0,\"hfu\":0,\"mbu\":");
  page_says(&got, "\"idle\":{\"sums\":[[");
  got.n = 0;
  the_page_of_a_run(three, false, 0, &got);
  assert_int_equal(count_of(got.s, "\"path\":{"), 0);
  got.n = 0;
  snprintf(stuck, sizeof stuck, "%s", three);
  memcpy(strstr(stuck, "$copied>=1"), "$copied>=9", 10);
  the_page_of_a_run(stuck, true, 0, &got);
  page_says(&got, "\"marks\":[[\"fault\",4,");
  got.n = 0;
  memcpy(strstr(stuck, "$copied>=9"), "          ", 10); /* the transfer waits for nobody */
  the_page_of_a_run(stuck, true, SOMA_CHECK_ALL, &got);
  page_says(&got, "\"findings\":1,\"marks\":[[\"race\",");
  assert_int_equal(count_of(got.s, "[\"fault\","), 0);
  free(got.s);
}

static void a_page_without_memory_is_a_status(void **state) {
  (void)state;
  soma_options o = SOMA_OPTIONS_INIT;
  o.causes = 1;
  bed b = bed_open(&o, three);
  bed_run(&b, SOMA_OK);
  soma_status s = SOMA_NOMEM;
  for (int left = 1; s == SOMA_NOMEM; left++) {
    purse u = {left};
    soma_recorder_options ro = SOMA_RECORDER_OPTIONS_INIT;
    soma_recorder *r;
    text got = {0};
    ro.alloc = spend;
    ro.alloc_ud = &u;
    s = soma_recorder_new(&ro, &r);
    for (int i = 0; r && i < STORY; i++) soma_recorder_event(r, &story[i]);
    if (s == SOMA_OK) s = soma_write_html(r, b.p, b.r, "", add_text, &got);
    assert_true(s == SOMA_OK || s == SOMA_NOMEM);
    assert_true(left < 1000);
    free(got.s);
    soma_recorder_free(r);
  }
  bed_close(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_page_stands_alone),
      cmocka_unit_test(the_page_has_the_path_and_the_fault),
      cmocka_unit_test(a_page_without_memory_is_a_status),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
