-- What worlds of ranks cost the host, timing only, on one thread: processor time, the least of some runs, and ratios
-- of times of this same run. Then what two threads and two processes gain, by the wall clock.
--   build/soma tests/bench/worlds.lua
local soma = require "soma"

-- The least processor time of `runs` runs, and the last run.
local function least(runs, options, progs, inputs)
  local w <close> = soma.world(options)
  local best, last = math.huge, nil
  for _ = 1, runs do
    local from = os.clock()
    last = w:run(progs, inputs)
    best = math.min(best, os.clock() - from)
  end
  return best, last
end

local function options(ranks, more)
  local o = {ranks = ranks, target = "trn2", timing_only = true, threads = 1}
  for k, v in pairs(more or {}) do o[k] = v end
  return o
end

local function list_of(n)
  local ranks = {}
  for r = 1, n do ranks[r] = r - 1 end
  return "[[" .. table.concat(ranks, ", ") .. "]]"
end

-- ---- Large rings ---------------------------------------------------------------------------------

local function all_reduce_text(ranks, elems)
  return ([==[
target trn2
tp group %s
x tensor float32[%d], input
y tensor float32[%d], output
done sem
section gpsimd
all_reduce dsts=[y], srcs=[x], group=tp, op=add $done++
nop $done>=1
halt
]==]):format(list_of(ranks), elems, elems)
end
local function all_reduce(ranks, elems) return soma.assemble(all_reduce_text(ranks, elems)) end

local MIB <const> = 1024 * 1024
print "worlds, timing only, one thread       processor time   simulated   windows"
for _, c in ipairs {{16, 64}, {64, 64}} do
  local seconds, runs = least(3, options(c[1], {algorithm = "ring"}), all_reduce(c[1], c[2] * MIB // 4), {})
  print(("  ring all_reduce, %3d ranks, %d MiB    %6.2f s      %8.1f us   %d"):format(c[1], c[2], seconds, runs.time_ns / 1000, runs.windows))
end

-- Whole instances of trn2, all cores, two a rank: an all_reduce of 16 MiB.
for _, c in ipairs {{64, 16, "rdh"}, {64, 16, "ring"}, {64, 16, "kangaring"}, {256, 64, "rdh"}} do
  local ranks, devices, algorithm = table.unpack(c)
  local text = all_reduce_text(ranks, 4 * MIB):gsub("done sem", "done sem core=*"):gsub("section gpsimd", "section gpsimd core=*"):gsub("op=add", "op=add, both=true")
  local seconds, runs = least(1, options(ranks, {lnc = 2, algorithm = algorithm}), soma.assemble(text), {})
  print(("  %-9s of 16 MiB, %3d devices, %3d cores %6.2f s      %8.1f us   %d   %.2f s a simulated ms"):format(algorithm, devices, 8 * devices,
    seconds, runs.time_ns / 1000, runs.windows, seconds / runs.time_ns * 1e6))
end

-- ---- Windows ---------------------------------------------------------------------------------------

-- Work without a collective: no rank can reach another, so nothing cuts its time unless window_ns does.
local softmax <const> = soma.assemble_file("samples/softmax.s", {defines = {ROWS = 4096}})
local GRIDS <const> = {20000, 5000, 1000}
print "softmax 4096 x 2048 on each rank       one go, s   windows of 20 us   5 us   1 us, times that   one go, ms a rank, times that of 16"
local of16
for _, ranks in ipairs {16, 32, 64, 128, 256} do
  local base, text = least(5, options(ranks), softmax, {}), ""
  of16 = of16 or base / ranks
  for _, grid in ipairs(GRIDS) do text = text .. ("%7.2f"):format(least(5, options(ranks, {window_ns = grid}), softmax, {}) / base) end
  print(("  %3d ranks                             %7.3f   %s                     %10.3f %8.2f"):format(ranks, base, text, base / ranks * 1000, base / ranks / of16))
end

-- One rank works and the others have ended: what they add, in windows of 1 us.
local idle <const> = soma.assemble "target trn2\nsection gpsimd\nhalt\n"
for _, ranks in ipairs {16, 256} do
  local function one(n) return (least(5, options(n, {window_ns = 1000}), function(r) return r == 0 and softmax or idle end, {})) end
  local alone, among = one(2), one(ranks)
  print(("  one of %3d ranks works, windows of 1 us: %.4f s, of two %.4f s; %.2f us of each idle rank in a run"):format(ranks, among, alone,
    (among - alone) / (ranks - 2) * 1e6))
end

-- The same with a small all_reduce after each phase of work: windows are as long as the work between collectives.
local function phases(ranks, work, collective)
  return soma.assemble(([==[
target trn2
tp group %s
x tensor float32[64], input
y tensor float32[64], output
t tile sbuf float32[128, 512]
go sem
done sem
section vector
mov r1, 20
again: mov r2, %d
work: tensor_scalar t, t, op0=add, imm0=1.0
sub r2, r2, 1
bne r2, 0, work
tensor_scalar t, t, op0=add, imm0=1.0 $go++
event_semaphore $done>=1 $done--
sub r1, r1, 1
bne r1, 0, again
halt
section gpsimd
mov r1, 20
again: event_semaphore $go>=1 $go--
%s $done++
sub r1, r1, 1
bne r1, 0, again
halt
]==]):format(list_of(ranks), work, collective))
end
for _, ranks in ipairs {16, 64} do
  local with = least(5, options(ranks), phases(ranks, 40, "all_reduce dsts=[y], srcs=[x], group=tp, op=add"), {})
  local without = least(5, options(ranks), phases(ranks, 40, "nop"), {})
  print(("  %3d ranks, 20 phases of work: with an all_reduce of 256 bytes after each %.3f s, without %.3f s"):format(ranks, with, without))
end

-- ---- Threads and processes ------------------------------------------------------------------------

-- spread.lua by a command: seconds by the wall clock, of the processor, simulated ms, windows, calls, bytes, MB, the hash.
local build = os.getenv "BUILD" or "build"
local function spread(command, work)
  local list, p <close> = {}, assert(io.popen(command .. " tests/bench/spread.lua " .. work .. " 2>&1"))
  local text = p:read "a"
  for number in text:gmatch "%S+" do list[#list + 1] = math.tointeger(number) or tonumber(number) end
  if #list ~= 8 then error(command .. ": " .. text, 0) end
  return list
end
local function there(command) return os.execute("command -v " .. command .. " >/dev/null") end
local mpi = there "mpirun" and there(build .. "/soma-mpi")
local two <const> = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 2 " .. build .. "/soma-mpi"
print "by the wall clock, on an idle host     one thread, s   two threads   two processes   goal"
for _, row in ipairs {{"values, 16 ranks", "", "1.70"}, {"timing only, 128 ranks", " timing", "none"}} do
  local one, threads = spread(build .. "/soma", "1" .. row[2]), spread(build .. "/soma", "2" .. row[2])
  local processes = mpi and spread(two, "1" .. row[2])
  if threads[8] ~= one[8] or processes and processes[8] ~= one[8] then error(row[1] .. ": the hashes differ", 0) end
  print(("  %-24s             %7.2f         %5.2f           %s       %s"):format(row[1], one[1], one[1] / threads[1],
    processes and ("%5.2f"):format(one[1] / processes[1]) or "(no MPI)", row[3]))
  if processes then
    print(("    a simulated ms: %.0f windows, %.1f calls and %.0f bytes to a process in each; most memory %d MB, of two processes %d MB each"):format(
      one[4] / one[3], processes[5] / one[4], processes[6] / one[4], one[7], processes[7]))
  end
end
