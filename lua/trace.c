/* Recorded events of a run, written in Chrome's trace event format, as Perfetto opens it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bind.h"

struct lb_trace {
  soma_event *events; /* names live as long as the program, which the run keeps */
  size_t n, cap;
  bool failed; /* memory ran out: what came after is missing */
};

struct lb_trace *lb_trace_new(void) {
  return calloc(1, sizeof(struct lb_trace));
}

void lb_trace_free(struct lb_trace *t) {
  if (t != NULL) free(t->events);
  free(t);
}

void lb_trace_add(struct lb_trace *t, const soma_event *e) {
  if (t->n == t->cap) {
    size_t cap = t->cap ? 2 * t->cap : 256;
    soma_event *more = realloc(t->events, cap * sizeof *more);
    t->failed = t->failed || more == NULL;
    if (more == NULL) return;
    t->events = more;
    t->cap = cap;
  }
  t->events[t->n++] = *e;
}

static void put_string(FILE *f, const char *s) {
  fputc('"', f);
  for (; s != NULL && *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\')
      fprintf(f, "\\%c", c);
    else if (c < 0x20)
      fprintf(f, "\\u%04x", c);
    else
      fputc(c, f);
  }
  fputc('"', f);
}

/* Tracks: process 1 the engines' data paths, 2 their waits, 3 the DMA engines, 4 semaphores. */
static void put_event(FILE *f, const soma_event *e) {
  static const int pids[] = {0, 1, 3, 4, 2, 2};
  double start = (double)e->start * 1e-9, length = (double)(e->end - e->start) * 1e-9;
  fprintf(f, ",\n{\"pid\":%d,\"tid\":%u,\"ts\":%.6f,\"name\":", pids[e->kind], e->engine, start);
  put_string(f, e->name != NULL ? e->name : "?");
  if (e->kind == SOMA_EV_SEM) {
    fprintf(f, ",\"ph\":\"C\",\"args\":{\"value\":%" PRIu32 "}}", e->value);
    return;
  }
  if (e->kind == SOMA_EV_NOTIFY)
    fprintf(f, ",\"ph\":\"i\",\"s\":\"t\"");
  else
    fprintf(f, ",\"ph\":\"X\",\"dur\":%.6f", length);
  fprintf(f, ",\"args\":{\"pc\":%" PRIu32, e->pc);
  if (e->bytes) fprintf(f, ",\"bytes\":%" PRIu64, e->bytes);
  if (e->file != NULL) {
    fputs(",\"file\":", f);
    put_string(f, e->file);
    fprintf(f, ",\"line\":%" PRIu32, e->line);
  }
  fputs("}}", f);
}

static void put_names(FILE *f) {
  static const char *const processes[] = {"engines", "waits", "dma engines", "semaphores"};
  for (int p = 0; p < 4; p++)
    fprintf(f, "%s{\"pid\":%d,\"ph\":\"M\",\"name\":\"process_name\",\"args\":{\"name\":\"%s\"}}",
            p ? ",\n" : "", p + 1, processes[p]);
  for (int p = 1; p <= 2; p++)
    for (int e = 0; e < SOMA_ENGINES; e++)
      fprintf(f,
              ",\n{\"pid\":%d,\"tid\":%d,\"ph\":\"M\",\"name\":\"thread_name\",\"args\":{\"name\":"
              "\"%s\"}}",
              p, e, soma_engine_name((soma_engine)e));
}

/* run:save_trace(path); the core was made with trace = true. nil and a message when the file cannot
 * be written. */
int lb_run_save_trace(lua_State *L) {
  const lb_run *run = lb_check_run(L, 1);
  const char *path = lb_path(L, 2);
  if (run->trace == NULL)
    return luaL_error(L, "save_trace: the core was not made with trace = true");
  if (run->trace->failed) return luaL_error(L, "save_trace: memory ran out while recording");
  lb_file *file = lb_file_create(L, path);
  if (file == NULL) return 2;
  fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", file->f);
  put_names(file->f);
  for (size_t i = 0; i < run->trace->n; i++) put_event(file->f, &run->trace->events[i]);
  fputs("\n]}\n", file->f);
  if (!lb_file_commit(L, file)) return 2;
  lua_pushboolean(L, true);
  return 1;
}
