-- What each check costs: time of the host with it, as a ratio to the same run without, both on one
-- thread, the best of five runs of one machine (of more if they are short): its first also pays for
-- the pages of its memories.
--   build/soma tests/bench/check.lua [--markdown | --rows]
-- --markdown: the table of README.md; --rows: seconds, a row for each program and check, which
-- `make bench-compare` holds against those of another revision.
local soma = require "soma"
local rows = arg[1] == "--rows"
-- Older revisions have one thread and no such option.
local threads = pcall(soma.core, {threads = 1}) and 1 or nil

local function host_seconds(prog, inputs, checks)
  local best, core = math.huge, soma.core {checks = checks, threads = threads}
  local runs, sum = 0, 0
  while runs < 5 or sum < 0.3 do
    local seconds = core:run(prog, inputs).stats.host_seconds
    best, runs, sum = math.min(best, seconds), runs + 1, sum + seconds
  end
  return best
end

local cases = {
  {"matmul 512 x 2048 x 2048", soma.assemble_file("samples/matmul.s", {defines = {M = 512, N = 2048, K = 2048}}),
    {a = soma.randn({2048, 512}, "bfloat16", {seed = 1}), b = soma.randn({2048, 2048}, "bfloat16", {seed = 2})}},
  {"softmax 4096 x 2048", soma.assemble_file("samples/softmax.s", {defines = {ROWS = 4096}}),
    {x = soma.randn({4096, 2048}, "float32", {seed = 1})}},
  {"attention 1024 x 2048", soma.assemble_file("samples/attention.s", {defines = {SQ = 1024, S = 2048}}),
    {q = soma.randn({128, 1024}, "bfloat16", {seed = 1}), k = soma.randn({128, 2048}, "bfloat16", {seed = 2}),
     v = soma.randn({2048, 128}, "bfloat16", {seed = 3})}},
}
if arg[1] == "--markdown" then
  local shown = {"uninit", "race", "psum", "range", "all"}
  print("| | `" .. table.concat(shown, "` | `") .. "` |\n|" .. ("---|"):rep(#shown + 1))
  for _, c in ipairs(cases) do
    local base, row = host_seconds(c[2], c[3], "none"), {}
    for i, check in ipairs(shown) do row[i] = string.format("%.1f", host_seconds(c[2], c[3], check) / base) end
    print("| " .. c[1] .. " | " .. table.concat(row, " | ") .. " |")
  end
  return
end
local checks = {"uninit", "race", "psum", "overlap", "range", "port", "all"}
if rows then
  cases[#cases + 1] = {"semaphore ping-pong, 20000 rounds", soma.assemble [[
        target  trn2
a       sem
b       sem
section sync
        mov     r1, 1
.l:     nop     $a++
        nop     $b>=r1
        add     r1, r1, 1
        ble     r1, 20000, .l
        halt
section vector
        mov     r1, 1
.l:     nop     $a>=r1
        nop     $b++
        add     r1, r1, 1
        ble     r1, 20000, .l
        halt
]], {}}
  for _, c in ipairs(cases) do
    for _, check in ipairs(checks) do
      print(string.format("%-40s  %.6f", check .. " " .. c[1], host_seconds(c[2], c[3], check)))
    end
  end
  return
end
print("checks, times the run without         " .. table.concat(checks, "  "))
for _, c in ipairs(cases) do
  local base, row = host_seconds(c[2], c[3], "none"), {}
  for i, check in ipairs(checks) do
    row[i] = string.format("%" .. #check .. ".2f", host_seconds(c[2], c[3], check) / base)
  end
  print(string.format("  %-26s %6.1f ms  %s", c[1], base * 1e3, table.concat(row, "  ")))
end
