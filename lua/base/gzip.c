/* Texts that go out: as they are, or as gzip where the file's name ends in .gz. Equal texts give
 * equal bytes (of one version of zlib): there is no time and no name in the header. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base.h"

struct lb_deflater {
  z_stream z;
  unsigned char out[1 << 15];
};

const char *lb_compressed(const char *path) {
  static const char *const known[] = {".gz", ".bz2", ".xz", ".zst", ".lz4", ".br", ".zip"};
  size_t n = strlen(path);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    size_t m = strlen(known[i]);
    if (n > m && strcmp(path + n - m, known[i]) == 0) return known[i];
  }
  return NULL;
}

bool lb_fits_name(lua_State *L, const char *path, bool text) {
  const char *suffix = lb_compressed(path);
  if (suffix == NULL || (text && strcmp(suffix, ".gz") == 0)) return true;
  lua_pushnil(L);
  if (text)
    lua_pushfstring(L, "cannot write '%s': %s is not built; the only compression is .gz", path,
                    suffix);
  else
    lua_pushfstring(L,
                    "cannot write '%s': only texts (traces, pages, tables) are compressed, as .gz; "
                    "this is data",
                    path);
  return false;
}

lb_file *lb_text_create(lua_State *L, const char *path) {
  lb_file *f = lb_fits_name(L, path, true) ? lb_file_create(L, path) : NULL;
  if (f == NULL || lb_compressed(path) == NULL) return f;
  f->deflater = calloc(1, sizeof *f->deflater);
  if (f->deflater == NULL) luaL_error(L, "not enough memory");
  /* 31: the largest window, 15, and 16 for gzip's header and check sum. */
  if (deflateInit2(&f->deflater->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) !=
      Z_OK)
    luaL_error(L, "not enough memory");
  return f;
}

/* Passes on what is in z.next_in and, with Z_FINISH, the end. */
static bool deflate_all(lb_file *f, int flush) {
  z_stream *z = &f->deflater->z;
  int status;
  do {
    z->next_out = f->deflater->out;
    z->avail_out = sizeof f->deflater->out;
    status = deflate(z, flush);
    size_t n = sizeof f->deflater->out - z->avail_out;
    if (status == Z_STREAM_ERROR || fwrite(f->deflater->out, 1, n, f->f) != n) return false;
    /* The end may take several rounds; else until its buffer has room. */
  } while (flush == Z_FINISH ? status != Z_STREAM_END : z->avail_out == 0);
  return true;
}

int lb_text_write(void *file, const char *p, size_t n) {
  lb_file *f = file;
  if (f->deflater == NULL) return fwrite(p, 1, n, f->f) != n;
  while (n > 0) { /* zlib counts in unsigned int */
    size_t part = n < 1u << 30 ? n : 1u << 30;
    /* zlib's type lacks a const. */
    f->deflater->z.next_in = (unsigned char *)(uintptr_t)p;
    f->deflater->z.avail_in = (unsigned)part;
    if (!deflate_all(f, Z_NO_FLUSH)) return 1;
    p += part;
    n -= part;
  }
  return 0;
}

void lb_text_end(lb_file *f, bool finish) {
  if (f->deflater == NULL) return;
  /* A failed write has no end to write. */
  if (finish && !ferror(f->f)) deflate_all(f, Z_FINISH);
  deflateEnd(&f->deflater->z);
  free(f->deflater);
  f->deflater = NULL;
}
