-- The selective scan of mamba in the three versions of the NKI tutorial, written with soma.kernel:
--   h[c, s, t] = exp(delta[c, t] A[c, s]) h[c, s, t - 1] + delta[c, t] u[c, t] B[s, t]
--   y[c, t]    = sum over s of h[c, s, t] C[s, t]
-- Version 1 has the states outside, so that delta and u are read again for each; version 2 has them
-- inside; version 3 takes the sequence in pieces, whose scans continue from the piece before. Values are
-- checked in double precision.
--   build/soma samples/mamba.lua [CHANNELS LENGTH STATES]
local soma = require "soma"

local function load(k, tensor, c, t0, n) return k:load(tensor[{{c, 128}, {t0, n}}]) end

-- The states' part of y for channels c .. c + 127 and times t0 .. t0 + n - 1: their scan times C.
local function one_state(k, x, delta, du, c, s, t0, n, carried)
  local rate = k:load(x.A[{{c, 128}, {s, 1}}])
  local decay = k:exp(delta, {scale = rate})
  local push = k:mul(du, k:load(x.B[{{s, 1}, {t0, n}}], {partitions = 128}))
  local h = k:tile("float32", {128, n})
  k.vector.tensor_tensor_scan(h, decay, push, carried or 0.0, {op0 = "mult", op1 = "add"})
  return k:mul(h, k:load(x.C[{{s, 1}, {t0, n}}], {partitions = 128})), h
end

local versions = {}
function versions.states_outside(k, x, y)
  local channels, length, states = x.u.shape[1], x.u.shape[2], x.A.shape[2]
  local sums = {}
  for s = 0, states - 1 do
    for c = 0, channels - 1, 128 do
      local delta = load(k, x.delta, c, 0, length)
      local part = one_state(k, x, delta, k:mul(delta, load(k, x.u, c, 0, length)), c, s, 0, length)
      sums[c] = sums[c] and k:add(sums[c], part) or part
    end
  end
  for c = 0, channels - 1, 128 do k:store(y[{c, 128}], sums[c]) end
end

function versions.states_inside(k, x, y)
  local channels, length, states = x.u.shape[1], x.u.shape[2], x.A.shape[2]
  for c = 0, channels - 1, 128 do
    local delta = load(k, x.delta, c, 0, length)
    local du = k:mul(delta, load(k, x.u, c, 0, length))
    local sum
    for s = 0, states - 1 do
      local part = one_state(k, x, delta, du, c, s, 0, length)
      sum = sum and k:add(sum, part) or part
    end
    k:store(y[{c, 128}], sum)
  end
end

function versions.pieces(k, x, y)
  local channels, length, states = x.u.shape[1], x.u.shape[2], x.A.shape[2]
  local n = math.min(length, 256)
  for c = 0, channels - 1, 128 do
    local carried = {}
    for t0 = 0, length - 1, n do
      local delta = load(k, x.delta, c, t0, n)
      local du, sum = k:mul(delta, load(k, x.u, c, t0, n)), nil
      for s = 0, states - 1 do
        local part, h = one_state(k, x, delta, du, c, s, t0, n, carried[s])
        carried[s] = k:copy(h[{{}, {n - 1, 1}}])
        sum = sum and k:add(sum, part) or part
      end
      k:store(y[{{c, 128}, {t0, n}}], sum)
    end
  end
end

local channels, length, states = tonumber(arg[1]) or 256, tonumber(arg[2]) or 512, tonumber(arg[3]) or 4
local data = {
  delta = soma.uniform({channels, length}, "float32", {seed = 1, low = 0.01, high = 0.1}),
  u = soma.randn({channels, length}, "float32", {seed = 2}),
  A = soma.uniform({channels, states}, "float32", {seed = 3, low = -1, high = -0.1}),
  B = soma.randn({states, length}, "float32", {seed = 4}), C = soma.randn({states, length}, "float32", {seed = 5}),
}

-- In double precision, one row at a time.
local function reference(c)
  local y = {}
  for t = 1, length do y[t] = 0.0 end
  for s = 0, states - 1 do
    local h, a = 0.0, data.A:get(c, s)
    for t = 0, length - 1 do
      local d = data.delta:get(c, t)
      h = math.exp(d * a) * h + d * data.u:get(c, t) * data.B:get(s, t)
      y[t + 1] = y[t + 1] + h * data.C:get(s, t)
    end
  end
  return soma.tensor({y}, "float32")
end

print("version              us  HBM bytes read  vector busy")
for _, name in ipairs {"states_outside", "states_inside", "pieces"} do
  local k, x = soma.kernel {target = "trn2"}, {}
  for _, input in ipairs {"delta", "u", "A", "B", "C"} do x[input] = k:input(input, "float32", data[input].shape) end
  versions[name](k, x, k:output("y", "float32", {channels, length}))
  local checks = channels * length <= 1 << 18 and "race,uninit,psum,overlap,port" or nil
  local run = soma.core {checks = checks}:run(k:program(), data)
  for c = 0, channels - 1, channels // 4 do
    local ok, report = soma.allclose(run.out.y:slice {c, c + 1}, reference(c), {rtol = 1e-4, atol = 1e-5})
    if not ok then error(name .. ", channel " .. c .. ": " .. report, 0) end
  end
  print(string.format("%-16s %8.1f %14d %11.1f%%", name, run.time_ns / 1000, run.stats.summary.hbm_read_bytes,
    100 * run.stats.engine.vector.busy_ns / run.time_ns))
end
