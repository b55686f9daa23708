-- What the builder's choices are worth: the simulated time of kernels and of each sample of soma.kernel under the choices
-- that it does not make, over the time under those it makes. Prints the table of kernel/README.md.
--   build/soma tests/bench/policies.lua
package.path = "./tests/lua/?.lua;" .. package.path
local soma, samples = require "soma", require "kernel_samples"

-- Options of soma.kernel; policy: AS_KERNEL_ of kernel/kernel.h, without: AS_PASS_.
local POLICIES <const> = {
  {"nothing left out, moved or renamed", {optimize = 0}},
  {"memsets that nothing reads", {without = 1}},
  {"stores that nothing reads", {without = 2}},
  {"without versions", {without = 4}},
  {"loads repeated", {without = 8}},
  {"values computed again", {without = 16}},
  {"the caller's order", {without = 32}},
  {"columns that nothing uses", {without = 128}},
  {"engine: the first allowed", {fixed_engines = true}},
  {"engine: each in turn", {policy = 1 << 16}},
  {"stores on the loads' queue", {policy = 1 << 17}},
  {"placement: first fit", {policy = 1 << 18}},
  {"optimize = 2", {optimize = 2}},
}
local SCRIPTS <const> = {{"masked_add"}, {"layernorm"}, {"conv2d"}, {"spill"}, {"kernels"}, {"flash_attention", "1024"},
                         {"mamba", "256", "1024", "8"}}
local NAMES <const> = {["kernels 1"] = "matmul", ["kernels 2"] = "softmax", ["kernels 3"] = "attention",
  ["flash_attention 1"] = "flash attention", ["flash_attention 2"] = "flash attention, causal",
  ["mamba 1"] = "mamba, states outside", ["mamba 2"] = "mamba, states inside", ["mamba 3"] = "mamba, in pieces"}

-- Kernels as users write them: what the samples do not have.
local function blocks(k, n, f)
  local x, y = k:input("x", "float32", {128 * n, 512}), k:output("y", "float32", {128 * n, 512})
  for i = 0, n - 1 do f(x:block(i, 128), y:block(i, 128), i) end
end
local KERNELS <const> = {
  {"one tile for all rounds", function(k)
    local t = k:tile("float32", {128, 512})
    blocks(k, 8, function(x, y)
      k.any.dma_copy(t, x)
      k.scalar.activate(t, t, {fn = "exp"})
      k.any.dma_copy(y, t)
    end)
  end},
  {"sums after zeros", function(k)
    local w, t = k:load(k:input("w", "bfloat16", {128, 128})), k:load(k:input("x", "bfloat16", {128, 512}))
    local y = k:output("y", "float32", {2048, 1})
    for i = 0, 15 do
      local sum = k:tile("float32", {128, 512}, {memory = "psum"})
      k.vector.memset(sum, 0.0)
      for _ = 1, 4 do k:matmul(w, t, {into = sum}) end
      k:store(y:block(i, 128), k:max(sum))
    end
  end},
  {"a temporary of each round", function(k)
    local kept = k:temp("kept", "float32", {128, 512})
    blocks(k, 8, function(x, y)
      local t = k:load(x)
      k:store(kept, t)
      k:store(y, k:exp(t))
    end)
  end},
  {"tiles that are too wide", function(k)
    blocks(k, 8, function(x, y)
      local t = k:tile("float32", {128, 16384})
      k.any.dma_copy(t:slice(2, 0, 512), x)
      k.scalar.activate(t:slice(2, 512, 512), t:slice(2, 0, 512), {fn = "exp"})
      k:store(y, t:slice(2, 512, 512))
    end)
  end},
}

local function own(options, f)
  for _, kernel in ipairs(KERNELS) do
    local k = soma.kernel(options)
    kernel[2](k)
    local inputs = {}
    for name, v in pairs(k.tensors) do
      if k.roles[name] == "input" then inputs[name] = soma.zeros(v.shape, v.dtype) end
    end
    f(kernel[1], soma.core {}:run(k:program(), inputs).time_ns)
  end
end

local function times(options)
  local list, by_name = {}, {}
  own(options, function(name, time_ns) list[#list + 1], by_name[name] = name, time_ns end)
  samples.each(function(name, _, _, time_ns)
    name = NAMES[name] or name:gsub(" 1$", "")
    list[#list + 1], by_name[name] = name, time_ns
  end, SCRIPTS, options)
  return by_name, list
end

local chosen, names = times {}
local heads, rows, means = {"", "as chosen, us"}, {}, {}
for i, name in ipairs(names) do rows[i] = {name, ("%.2f"):format(chosen[name] / 1000)} end
for _, p in ipairs(POLICIES) do
  local got, log = times(p[2]), 0.0
  heads[#heads + 1] = p[1]
  for i, name in ipairs(names) do
    local ratio = got[name] / chosen[name]
    rows[i][#rows[i] + 1] = ("%.2f"):format(ratio)
    log = log + math.log(ratio) / #names
  end
  means[#means + 1] = math.exp(log)
end

print("| " .. table.concat(heads, " | ") .. " |")
print("|---|" .. ("--:|"):rep(#heads - 1))
for _, row in ipairs(rows) do print("| " .. table.concat(row, " | ") .. " |") end
print("\nTheir geometric means:\n\n```")
for i, p in ipairs(POLICIES) do
  print(("%-36s %.3f  %s"):format(p[1], means[i], ("#"):rep(math.floor((means[i] - 0.8) * 40 + 0.5))))
end
print(("%-36s %.3f  %s\n```"):format("as chosen", 1, ("#"):rep(8)))
