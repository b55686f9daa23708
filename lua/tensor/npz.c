/* NumPy's .npz files: ZIP archives of one .npy file a tensor (numpy.savez), by libzip. Members are
 * stored or deflated; what an archive declares is checked before anything is allocated for it. */
#include <string.h>
#include <zip.h>

#include "file.h"

#define ARCHIVE_CLASS "soma.archive"
#define SUFFIX ".npy"
/* A byte of deflated data holds at most four matches of 258 bytes, of two bits each (RFC 1951). */
enum { DEFLATE_MOST = 4 * 258, SUFFIX_SIZE = sizeof SUFFIX - 1 };

/* Kept on the stack: an error in between closes both. */
typedef struct archive {
  zip_t *z;
  zip_file_t *member; /* the one that is open */
} archive;

/* In this order: a member belongs to its archive. */
static void discard(archive *a) {
  if (a->member != NULL) zip_fclose(a->member);
  if (a->z != NULL) zip_discard(a->z);
  *a = (archive){NULL, NULL};
}

static int archive_gc(lua_State *L) {
  discard(luaL_checkudata(L, 1, ARCHIVE_CLASS));
  return 0;
}

static archive *new_archive(lua_State *L) {
  archive *a = lua_newuserdatauv(L, sizeof *a, 0);
  *a = (archive){NULL, NULL};
  luaL_setmetatable(L, ARCHIVE_CLASS);
  return a;
}

/* The system's words for an error of the system, else libzip's. e is finished. */
static const char *push_error_text(lua_State *L, zip_error_t *e) {
  bool of_system = zip_error_system_type(e) == ZIP_ET_SYS && zip_error_code_system(e) != 0;
  if (zip_error_code_zip(e) == ZIP_ER_EXISTS) /* "File already exists" would mislead */
    lua_pushliteral(L, "two members have one name");
  else
    lua_pushstring(L, of_system ? strerror(zip_error_code_system(e)) : zip_error_strerror(e));
  zip_error_fini(e);
  return lua_tostring(L, -1);
}

/* ---- Reading ------------------------------------------------------------------------------- */

/* Pushes the archive; false with nil and a message pushed when the file cannot be opened. */
static archive *open_archive(lua_State *L, lt_source *s, const char *path) {
  zip_error_t error;
  lb_file *f = lb_file_open(L, path);
  /* nil and a message are on the stack. */
  if (f == NULL) return NULL;
  *s = lt_file_source(L, f, path, ".npz");
  /* Its directory is at the end, which a pipe cannot go back from. */
  if (s->length < 0) luaL_error(L, "%s: an archive must be a regular file", path);
  archive *a = new_archive(L);
  zip_error_init(&error);
  zip_source_t *from = zip_source_filep_create(f->f, 0, -1, &error);
  /* The file is freed by Lua; only its stream has another owner from here on. */
  if (from == NULL) luaL_error(L, "%s: %s", path, push_error_text(L, &error));
  f->f = NULL; /* `from` closes it */
  /* CHECKCONS: the two descriptions of a member, before it and at the end, must agree. */
  a->z = zip_open_from_source(from, ZIP_RDONLY | ZIP_CHECKCONS, &error);
  if (a->z == NULL) {
    zip_source_free(from);
    lt_format_error(s, "%s", push_error_text(L, &error));
  }
  zip_error_fini(&error);
  return a;
}

static void stat_member(const lt_source *s, archive *a, zip_uint64_t i, zip_stat_t *st) {
  /* Everything that is used below; an archive may leave fields out. */
  const zip_uint64_t need =
      ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
  if (zip_stat_index(a->z, i, 0, st) != 0 || (st->valid & need) != need)
    lt_format_error(s, "member %I: %s", (LUAI_UACINT)i, zip_strerror(a->z));
}

static bool is_npy(const char *name, size_t n) {
  /* A name of the suffix alone is no tensor. */
  return n > SUFFIX_SIZE && strcmp(name + n - SUFFIX_SIZE, SUFFIX) == 0;
}

/* Pushes the sequence of the tensors' names, which libzip has found to differ, and a table of the
 * members' numbers by name. */
static void push_members(const lt_source *s, archive *a) {
  lua_State *L = s->L;
  zip_int64_t n = zip_get_num_entries(a->z, 0);
  /* The bytes of all members so far, as they lie in the file. */
  uint64_t packed = 0;
  lua_newtable(L);
  lua_newtable(L);
  /* By number, since names are looked up later. */
  for (zip_int64_t i = 0; i < n; i++) {
    zip_stat_t st;
    stat_member(s, a, (zip_uint64_t)i, &st);
    /* Members that share bytes, as in archives made to burst, have more in all than the file. */
    if (st.comp_size > (uint64_t)s->length - packed)
      lt_format_error(s, "its members up to '%s' have more bytes than its %I", st.name,
                      (LUAI_UACINT)s->length);
    packed += st.comp_size;
    size_t length = strlen(st.name);
    if (!is_npy(st.name, length)) continue;
    /* The tensor's name is the member's without its suffix. */
    lua_pushlstring(L, st.name, length - SUFFIX_SIZE);
    lua_pushvalue(L, -1);
    lua_rawseti(L, -4, (lua_Integer)lua_rawlen(L, -4) + 1);
    lua_pushinteger(L, i);
    lua_rawset(L, -3);
  }
}

/* A whole archive has nothing but tensors.
 * Other members would be left out silently. */
static void check_all_npy(const lt_source *s, archive *a) {
  zip_int64_t n = zip_get_num_entries(a->z, 0);
  for (zip_int64_t i = 0; i < n; i++) {
    zip_stat_t st;
    stat_member(s, a, (zip_uint64_t)i, &st);
    if (!is_npy(st.name, strlen(st.name)))
      lt_format_error(s, "member '%s' is not a .npy file: its name does not end in .npy", st.name);
  }
}

static void check_member(const lt_source *s, const zip_stat_t *st) {
  /* A password is nothing that a script could give. */
  if ((st->valid & ZIP_STAT_ENCRYPTION_METHOD) != 0 && st->encryption_method != ZIP_EM_NONE)
    lt_format_error(s, "member '%s' is encrypted", st->name);
  if (st->comp_method != ZIP_CM_STORE && st->comp_method != ZIP_CM_DEFLATE)
    lt_format_error(s, "member '%s': compression method %d is neither stored (0) nor deflated (8)",
                    st->name, st->comp_method);
  /* Stored members have one size; deflated ones cannot have grown beyond what the
   * method allows. */
  if (st->comp_method == ZIP_CM_STORE ? st->comp_size != st->size
                                      : st->size / DEFLATE_MOST > st->comp_size)
    lt_format_error(s, "member '%s': %I bytes %s cannot be %I", st->name,
                    (LUAI_UACINT)st->comp_size,
                    st->comp_method == ZIP_CM_STORE ? "stored" : "deflated", (LUAI_UACINT)st->size);
}

static size_t read_member(lt_source *s, void *to, size_t n) {
  /* Errors are asked for afterwards. */
  zip_int64_t got = zip_fread(s->from, to, n);
  return got > 0 ? (size_t)got : 0;
}

static const char *member_error(lt_source *s) {
  zip_error_t *e = zip_file_get_error(s->from);
  /* Also at the end of a member. */
  if (zip_error_code_zip(e) == ZIP_ER_OK) return NULL;
  return lua_pushfstring(s->L, "it cannot be unpacked: %s", zip_error_strerror(e));
}

/* Pushes the tensor of member i. */
static void load_member(const lt_source *s, archive *a, zip_uint64_t i, unsigned asked) {
  lua_State *L = s->L;
  zip_stat_t st;
  stat_member(s, a, i, &st);
  check_member(s, &st);
  a->member = zip_fopen_index(a->z, i, 0);
  if (a->member == NULL) lt_format_error(s, "member '%s': %s", st.name, zip_strerror(a->z));
  lt_source m = {.L = L,
                 /* Errors name the archive and the member. */
                 .path = lua_pushfstring(L, "%s: member '%s'", s->path, st.name),
                 .format = ".npy",
                 /* As declared; the reader finds it if the member ends before. */
                 .length = (int64_t)st.size,
                 .read = read_member,
                 .error = member_error,
                 .from = a->member};
  lt_read_npy(&m, asked);
  lua_remove(L, -2); /* the path */
  zip_fclose(a->member);
  a->member = NULL;
}

/* soma.load_npz(path, {names, dtype, device}): a table of tensors by name; nil and a message when
 * the file cannot be opened. */
static int load_npz(lua_State *L) {
  static const char *const known[] = {"names", "dtype", "device", NULL};
  const char *path = lb_path(L, 1);
  lua_settop(L, 2);
  lt_loading o = lt_loading_options(L, 2, "load_npz", known);
  lt_source s;
  archive *a = open_archive(L, &s, path);
  if (a == NULL) return 2;
  push_members(&s, a);
  /* The stack holds the archive, the names, the numbers; then what is asked for, and
   * the result. */
  int numbers = lua_gettop(L), names = numbers + 1, out = numbers + 2;
  /* With names only those have to be tensors. */
  if (lb_option(L, 2, "names") == LUA_TNIL) check_all_npy(&s, a);
  lua_settop(L, numbers);
  lt_loading_names(L, &o, path, numbers - 1);
  lua_newtable(L);
  lua_Integer n = (lua_Integer)lua_rawlen(L, names);
  for (lua_Integer i = 1; i <= n; i++) {
    /* A name, its number, then its tensor by that name. */
    lua_rawgeti(L, names, i);
    lua_pushvalue(L, -1);
    lua_rawget(L, numbers);
    zip_uint64_t number = (zip_uint64_t)lua_tointeger(L, -1);
    lua_pop(L, 1);
    load_member(&s, a, number, lt_loading_dtype(L, &o, lua_tostring(L, -1)));
    lt_place(L, o.device, "load_npz");
    lua_rawset(L, out);
  }
  discard(a);
  return 1;
}

/* soma.npz_names(path): the sequence of the tensors' names; nil and a message when the file cannot
 * be opened. */
static int npz_names(lua_State *L) {
  lt_source s;
  archive *a = open_archive(L, &s, lb_path(L, 1));
  if (a == NULL) return 2;
  push_members(&s, a);
  /* Only the names are given back. */
  lua_pop(L, 1);
  discard(a);
  return 1;
}

/* ---- Writing ------------------------------------------------------------------------------- */

/* Dates are those of the format's first day, as NumPy has them: equal tensors, equal files. */
static bool add_member(zip_t *z, const char *name, const lt_tensor *t, unsigned char *head,
                       bool compress) {
  enum { FIRST_DAY = 1 << 5 | 1 };
  zip_uint64_t bytes = (zip_uint64_t)t->size * isa_dtype_bytes(t->dtype);
  /* libzip reads the heads when it closes the archive: each member has its own.
   * Head and data as two pieces, so that nothing is copied. */
  zip_buffer_fragment_t parts[2] = {{head, lt_npy_head(t, head)}, {t->data, bytes}};
  zip_source_t *source = zip_source_buffer_fragment(z, parts, bytes > 0 ? 2 : 1, 0);
  if (source == NULL) return false;
  /* From here on the archive frees the source. */
  zip_int64_t i = zip_file_add(z, name, source, ZIP_FL_ENC_UTF_8);
  if (i < 0) {
    zip_source_free(source);
    return false;
  }
  return zip_set_file_compression(z, (zip_uint64_t)i, compress ? ZIP_CM_DEFLATE : ZIP_CM_STORE,
                                  0) == 0 &&
         zip_file_set_dostime(z, (zip_uint64_t)i, 0, FIRST_DAY, 0) == 0;
}

/* Writes over the file at path, which exists. NULL, or a message pushed. */
static const char *write_archive(lua_State *L, const char *path, const lt_named *list, size_t n,
                                 bool compress) {
  zip_error_t error;
  int code = 0;
  archive *a = new_archive(L);
  /* One more: nothing may have size zero. */
  unsigned char(*heads)[LT_NPY_HEAD] = lua_newuserdatauv(L, (n + 1) * sizeof *heads, 0);
  /* Over the temporary file, which the caller renames. */
  a->z = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, &code);
  if (a->z == NULL) {
    zip_error_init_with_code(&error, code);
    return push_error_text(L, &error);
  }
  bool good = true;
  for (size_t i = 0; i < n && good; i++) {
    const char *name = lua_pushfstring(L, "%s" SUFFIX, list[i].name);
    good = add_member(a->z, name, list[i].t, heads[i], compress);
    lua_pop(L, 1); /* libzip has a copy */
  }
  /* All bytes are written here. */
  if (good && zip_close(a->z) == 0) {
    a->z = NULL;
    return NULL;
  }
  /* The error is copied, as discard frees the one of the archive. */
  error = (zip_error_t){.zip_err = zip_error_code_zip(zip_get_error(a->z)),
                        .sys_err = zip_error_code_system(zip_get_error(a->z))};
  const char *text = push_error_text(L, &error);
  discard(a);
  return text;
}

/* An archive of nothing: libzip would remove the file. */
static void write_empty(FILE *f) {
  /* The end record alone. */
  static const unsigned char end[22] = {'P', 'K', 5, 6};
  fwrite(end, 1, sizeof end, f);
}

/* soma.save_npz(path, {name = tensor, ...}, {compress}): true; nil and a message when the file
 * cannot be written. It appears complete or not at all. */
static int save_npz(lua_State *L) {
  static const char *const known[] = {"compress", NULL};
  const char *path = lb_path(L, 1), *error = NULL;
  size_t n;
  lua_settop(L, 3);
  lb_options(L, 3, "save_npz", known);
  bool compress = lb_bool(L, 3, "save_npz", "compress", false);
  const lt_named *list = lt_check_named(L, 2, "save_npz", &n);
  lb_file *f = lb_file_create(L, path);
  if (f == NULL) return 2;
  /* A device or pipe cannot be written by name. */
  if (f->temp == NULL)
    error = "an archive must be a regular file";
  else if (n == 0)
    write_empty(f->f);
  else
    error = write_archive(L, f->temp, list, n, compress);
  if (error != NULL) {
    lb_file_close(f);
    lua_pushnil(L);
    lua_pushfstring(L, "cannot write '%s': %s", path, error);
    return 2;
  }
  if (!lb_file_commit(L, f)) return 2;
  lua_pushboolean(L, true);
  return 1;
}

const luaL_Reg lt_npz_functions[] = {
    {"load_npz", load_npz}, {"npz_names", npz_names}, {"save_npz", save_npz}, {NULL, NULL}};

void lt_open_npz(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", archive_gc}, {NULL, NULL}};
  lb_class(L, ARCHIVE_CLASS, meta, NULL);
}
