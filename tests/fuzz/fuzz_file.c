/* The bytes of a .npy, .npz or safetensors file, as they are and, of an archive, with the checksums
 * repaired. The module loads them or says why not, naming the file; read and mapped they are the
 * same tensors; what is loaded is saved and loaded again as the same. */
#include <lauxlib.h>
#include <lualib.h>
#include <string.h>
#include <unistd.h>

#include "../../lua/module.h"
#include "fuzz.h"

const enum fuzz_kind fuzz_kind = FUZZ_BYTES;
fuzz_stat fuzz_stats[] = {{"inputs", 0, 0},
                          {"loaded as .npy", 3, 0},
                          {"loaded as .npz", 1, 0},
                          {"loaded as safetensors", 1, 0},
                          {NULL, 0, 0}};
enum { INPUTS, NPY, NPZ, SAFETENSORS };
void fuzz_report(void) {}

/* Gets two paths; gives a function of a format's number, true when the file was loaded. */
static const char laws[] =
    "local path, copy = ...\n"
    "local soma = require 'soma'\n"
    "local formats = {\n"
    "  {soma.load_npy, function(x) return x[1]:save_npy(copy) end},\n"
    "  {soma.load_npz, function(x) return soma.save_npz(copy, x, {compress = true}) end},\n"
    "  {soma.load_safetensors, function(x) return soma.save_safetensors(copy, x) end},\n"
    "}\n"
    "local function load(f, path, options)\n"
    "  local ok, x, more = pcall(f, path, options)\n"
    "  if ok and not x then error('cannot open: ' .. tostring(more)) end\n"
    "  if ok then return type(x) == 'table' and x or {x} end\n"
    "  if x ~= 'not enough memory' and not x:find(path .. ': ', 1, true) then\n"
    "    error('refused without the name: ' .. x)\n"
    "  end\n"
    "  return nil, x\n"
    "end\n"
    "local function same(x, y, what)\n"
    "  for name, t in pairs(x) do\n"
    "    if not y[name] or y[name].dtype ~= t.dtype or not soma.equal(y[name], t) then\n"
    "      error(what .. ': another tensor ' .. tostring(name))\n"
    "    end\n"
    "  end\n"
    "end\n"
    "return function(number)\n"
    "  local load_one, save = table.unpack(formats[number])\n"
    "  local options = {dtype = number == 3 and {f64 = 'float32'} or nil}\n"
    "  local x, message = load(load_one, path, options)\n"
    "  if number ~= 2 then\n"
    "    local y, other = load(load_one, path, {map = true, dtype = options.dtype})\n"
    "    if message ~= other then error('read: ' .. tostring(message) .. '; mapped: ' .. "
    "tostring(other)) end\n"
    "    if x then same(x, y, 'mapped') same(y, x, 'mapped') end\n"
    "  end\n"
    "  if not x then load(load_one, path, {dtype = 'float32'}) return false end\n"
    "  assert(save(x))\n"
    "  local again = load(load_one, copy)\n"
    "  same(x, again, 'saved') same(again, x, 'saved')\n"
    "  return true\n"
    "end\n";

enum { MOST_MEMORY = 256 << 20 };
static size_t in_use;

static void *allocate(void *ud, void *p, size_t old, size_t n) {
  (void)ud;
  if (p == NULL) old = 0; /* then it is a kind of object */
  if (n > old && n - old > MOST_MEMORY - in_use) return NULL;
  void *q = NULL;
  if (n == 0)
    free(p);
  else if ((q = realloc(p, n)) == NULL)
    return NULL;
  in_use += n - old;
  return q;
}

static char path[64], copy[64];

static void remove_files(void) {
  unlink(path);
  unlink(copy);
}

static void make_path(char *out) {
  strcpy(out, "/tmp/soma-fuzz-XXXXXX");
  int fd = mkstemp(out);
  if (fd < 0) fuzz_fail("no temporary file");
  close(fd);
}

/* The state, with the function of the laws at stack position 1. */
static lua_State *state(void) {
  static lua_State *L;
  if (L != NULL) return L;
  make_path(path);
  make_path(copy);
  atexit(remove_files);
  L = lua_newstate(allocate, NULL);
  if (L == NULL) fuzz_fail("no Lua");
  luaL_openlibs(L);
  luaL_requiref(L, "soma", luaopen_soma, 0);
  lua_pop(L, 1);
  if (luaL_loadbuffer(L, laws, sizeof laws - 1, "laws") != LUA_OK)
    fuzz_fail("%s", lua_tostring(L, -1));
  lua_pushstring(L, path);
  lua_pushstring(L, copy);
  if (lua_pcall(L, 2, 1, 0) != LUA_OK) fuzz_fail("%s", lua_tostring(L, -1));
  return L;
}

static void try(const uint8_t *data, size_t n) {
  lua_State *L = state();
  int format = n > 1 && data[0] == 'P' && data[1] == 'K' ? NPZ
               : n && data[0] == 0x93                    ? NPY
                                                         : SAFETENSORS;
  FILE *f = fopen(path, "wb");
  if (f == NULL || fwrite(data, 1, n, f) != n || fclose(f) != 0) fuzz_fail("cannot write %s", path);
  lua_pushvalue(L, 1);
  lua_pushinteger(L, format);
  if (lua_pcall(L, 1, 1, 0) != LUA_OK && strcmp(lua_tostring(L, -1), "not enough memory") != 0)
    fuzz_fail("%s", lua_tostring(L, -1));
  fuzz_stats[format].n += lua_toboolean(L, -1) && !lua_isstring(L, -1);
  lua_settop(L, 1);
  if (fuzz_stats[INPUTS].n % 16 == 0) lua_gc(L, LUA_GCCOLLECT);
}

/* ---- Checksums ----------------------------------------------------------------------------- */

static uint32_t get32(const uint8_t *p) {
  return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put32(uint8_t *p, uint32_t v) {
  for (unsigned i = 0; i < 4; i++) p[i] = (uint8_t)(v >> 8 * i);
}

static uint32_t crc32(const uint8_t *p, size_t n) {
  uint32_t c = 0xffffffff;
  for (size_t i = 0; i < n; i++) {
    c ^= p[i];
    for (unsigned b = 0; b < 8; b++) c = c & 1 ? 0xedb88320 ^ c >> 1 : c >> 1;
  }
  return ~c;
}

/* Changes stored members without ZIP64 fields. True when something changed. */
static int repair(uint8_t *p, size_t n) {
  enum { ENTRY = 46, LOCAL = 30 };
  int changed = 0;
  for (size_t i = 0; i + ENTRY <= n; i++) {
    if (memcmp(p + i, "PK\1\2", 4) != 0 || p[i + 10] != 0) continue;
    size_t at = get32(p + i + 42), size = get32(p + i + 20);
    if (at > n || n - at < LOCAL) continue;
    size_t start = at + LOCAL + (get32(p + at + 26) & 0xffff) + (get32(p + at + 26) >> 16);
    if (start > n || size > n - start) continue;
    uint32_t crc = crc32(p + start, size);
    if (get32(p + i + 16) == crc) continue;
    put32(p + i + 16, crc);
    put32(p + at + 14, crc);
    changed = 1;
  }
  return changed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  fuzz_stats[INPUTS].n++;
  try(data, n);
  if (n < 2 || data[0] != 'P') return 0;
  uint8_t *repaired = malloc(n);
  if (repaired == NULL) return 0;
  memcpy(repaired, data, n);
  if (repair(repaired, n)) try(repaired, n);
  free(repaired);
  return 0;
}
