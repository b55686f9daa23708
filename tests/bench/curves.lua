-- Draws tests/pictures/time_by_size.svg and time_by_threads.svg from the JSON of bench_threads, and prints
-- what tests/README.md says with them.
--   build/soma tests/bench/curves.lua [FILE]     FILE: what `make bench` printed; without it the
--                                                benchmark runs now
local soma = require "soma"
local build = os.getenv "BUILD" or "build"
local KERNELS <const> = {
  matmul = "matmul n x n x n, bfloat16", softmax = "softmax n x 2048, float32",
  attention = "attention, n queries, 2048 keys, bfloat16", layernorm = "layernorm n x 512, float32",
}
local LABELS <const> = {}
for _, text in pairs(KERNELS) do LABELS[text] = text end
local FOLDER <const> = "tests/pictures/"

local from = arg[1] and assert(io.open(arg[1])) or assert(io.popen(build .. "/tests/bench_threads curves"))
local text = from:read "a"
assert(from:close(), "the benchmark fails")

local points, one, largest, order = {}, {}, {}, {}
for kernel, size, threads, ms in
  text:gmatch '{"kernel": "(%a+)", "size": (%d+), "threads": (%d+), "ms": ([%d.]+)}' do
  local p = {kernel = KERNELS[kernel], size = math.tointeger(size), threads = math.tointeger(threads), ms = tonumber(ms)}
  if not one[p.kernel] then one[p.kernel], order[#order + 1] = {}, p.kernel end
  if p.threads == 1 then one[p.kernel][p.size] = p.ms end
  largest[p.kernel] = math.max(largest[p.kernel] or 0, p.size)
  p.part = p.ms / one[p.kernel][p.size]
  points[#points + 1] = p
end
local cores = text:match '"cores": (%d+)'
if #points == 0 or not cores then error("no curves of bench_threads in its output", 0) end

local result = soma.sweep {variants = points, run = function() return {} end}:check()
assert(result:plot {
  x = "size", y = "ms", series = "kernel", log = "xy", labels = LABELS, file = FOLDER .. "time_by_size.svg",
  title = "Time of a run on one thread", xlabel = "n", ylabel = "time of the host, ms",
  where = function(row) return row.threads == 1 end,
})
assert(result:plot {
  x = "threads", y = "part", series = "kernel", labels = LABELS, file = FOLDER .. "time_by_threads.svg",
  title = "Time of a run by threads, at the largest n", xlabel = "threads of the host",
  ylabel = "part of the time on one thread",
  where = function(row) return row.size == largest[row.kernel] end,
})

local cpu = "unknown processor"
for line in io.lines "/proc/cpuinfo" do cpu = line:match "^model name%s*:%s*(.+)" or cpu end
print(("![Time of four kernels by size](pictures/time_by_size.svg)\n\n" ..
       "![Time of four kernels by threads](pictures/time_by_threads.svg)\n\n" ..
       "These numbers are of one host: %s cores, %s. Each is the least of five runs.\n"):format(cores, cpu))
local heads, rows = {"n of the largest"}, {}
for i, kernel in ipairs(order) do rows[i] = {kernel, tostring(largest[kernel])} end
for _, p in ipairs(points) do
  for i, kernel in ipairs(order) do
    if p.kernel == kernel and p.size == largest[kernel] then
      rows[i][#rows[i] + 1] = ("%.1f"):format(p.ms)
      if i == 1 then heads[#heads + 1] = p.threads == 1 and "1 thread, ms" or p.threads .. " threads, ms" end
    end
  end
end
print("| kernel | " .. table.concat(heads, " | ") .. " |")
print("|---|" .. ("--:|"):rep(#heads))
for _, row in ipairs(rows) do print("| " .. table.concat(row, " | ") .. " |") end
