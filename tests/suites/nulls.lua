-- Every function of the public headers is called with NULL and 0 for all its arguments, and again with
-- handles that are good: each in a process of its own, which must end by itself. A function that
-- is added is in it by its declaration.
local build, cc = os.getenv "BUILD" or "build", os.getenv "CC" or "gcc"
local sanitizer = build:find "asan" and "-fsanitize=address,undefined" or build:find "ubsan" and "-fsanitize=undefined" or
  build:find "tsan" and "-fsanitize=thread" or ""
local dir = io.popen("mktemp -d"):read "l"

-- What is passed for a handle in the second round: by type and name of the argument.
local good = {
  ["soma_machine *m"] = "m", ["soma_program *p"] = "p", ["soma_run *r"] = "r", ["soma_run *run"] = "r",
  ["soma_kernel *k"] = "k", ["soma_kernel *first"] = "k", ["soma_recorder *r"] = "rec",
  ["soma_recorder *rec"] = "rec", ["soma_tensor *t"] = "t", ["soma_tensor *base"] = "t", ["soma_world *w"] = "w",
}

local functions = {}
for name in io.popen "cd vm/api && ls soma*.h":lines() do
  local f <close> = assert(io.open("vm/api/" .. name))
  local text = f:read("a"):gsub("/%*.-%*/", ""):gsub("\\\n", " "):gsub("#[^\n]*", "")
  for result, fn, list in text:gmatch "([%a_][%w_ \n]-[%s%*]+)(soma_[%w_]+)(%b())%s*;" do
    if not result:find "typedef" then
      local none, some = {}, {}
      for argument in list:sub(2, -2):gsub("%s+", " "):gmatch "[^,]+" do
        argument = argument:gsub("const ", ""):match "^%s*(.-)%s*$"
        if argument ~= "void" and argument ~= "..." then
          none[#none + 1] = argument:find "[%*%[]" and "(void *)0" or "0"
          some[#some + 1] = good[argument] or none[#none]
        end
      end
      functions[#functions + 1] = {name = fn, none = table.concat(none, ", "), some = table.concat(some, ", ")}
    end
  end
end

local out = {[[
#include "soma.h"
#include "soma_kernel.h"
#include "soma_trace.h"
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define TRY(call) \
  do { \
    int status; \
    if (fork() == 0) { (void)call; _exit(0); } \
    wait(&status); \
    if (status) printf("%s: ended with %#x\n", #call, (unsigned)status); \
    else passed++; \
  } while (0)
int main(void) {
  static const char text[] = "target trn2\nt tile sbuf float32[4, 4]\nsection vector\n memset t, 1.0\n halt\n";
  int passed = 0;
  int64_t shape[1] = {4};
  soma_machine *m; soma_program *p; soma_run *r; soma_kernel *k; soma_recorder *rec; soma_tensor *t; soma_world *w;
  setvbuf(stdout, NULL, _IONBF, 0);
  if (soma_machine_new(NULL, &m) || soma_assemble(m, text, sizeof text - 1, "a.s", NULL, &p, NULL) ||
      soma_kernel_new(m, NULL, &k) || soma_recorder_new(NULL, &rec) ||
      soma_tensor_new(m, SOMA_FLOAT32, 1, shape, &t) || soma_run_start(m, p, &r) ||
      soma_world_new(&(soma_world_options){.size = sizeof(soma_world_options), .ranks = 2}, &w)) return 1;
]]}
for _, f in ipairs(functions) do
  out[#out + 1] = ("  TRY(%s(%s));\n"):format(f.name, f.none)
  if f.some ~= f.none then out[#out + 1] = ("  TRY(%s(%s));\n"):format(f.name, f.some) end
end
out[#out + 1] = [[
  printf("%d\n", passed);
  soma_world_free(w); soma_run_free(r); soma_tensor_free(t); soma_recorder_free(rec); soma_kernel_free(k);
  soma_program_free(p); soma_machine_free(m);
}
]]
local path = dir .. "/nulls"
do
  local f <close> = assert(io.open(path .. ".c", "w"))
  f:write(table.concat(out))
end
local compile = ("%s -std=gnu11 -w %s -Ivm/api %s.c -o %s %s/libsoma.a -lm -lpthread"):format(cc, sanitizer, path, path, build)
assert(os.execute(compile), compile)
local passed, failed = 0, 0
for line in io.popen("ASAN_OPTIONS=detect_leaks=0 " .. path):lines() do
  if tonumber(line) then
    passed = tonumber(line)
  else
    failed = failed + 1
    print("FAILED " .. line)
  end
end
os.execute("rm -rf " .. dir)
if #functions < 100 or passed < #functions then failed = failed + 1 end
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0)
