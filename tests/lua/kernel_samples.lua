-- The kernels of the samples of soma.kernel. M.each calls f for each kernel that a script runs, with its
-- name, the kernel, its inputs and the time of its run.
local soma = require "soma"
local M = {}

-- Scripts of samples/ and their arguments, in sizes that keep a run short.
M.scripts = {{"masked_add"}, {"layernorm"}, {"conv2d"}, {"spill"}, {"kernels"}, {"flash_attention", "512"},
             {"mamba", "128", "128", "2"}}

-- Runs a script with soma.core and soma.kernel watched: programs that ran with their inputs, and kernels.
local function watch(script, options)
  local core, kernel, say, runs, kernels = soma.core, soma.kernel, print, {}, {}
  soma.kernel = function(o, record)
    local all = {}
    for name, value in pairs(o or {}) do all[name] = value end
    for name, value in pairs(options or {}) do all[name] = value end
    local k = kernel(all, record)
    kernels[#kernels + 1] = k
    return k
  end
  soma.core = function(o)
    local c = core(o)
    return {run = function(_, program, inputs, how)
      local run = c:run(program, inputs, how)
      runs[#runs + 1] = {program = program, inputs = inputs, time_ns = run.time_ns}
      return run
    end}
  end
  print = function() end
  local path = "samples/" .. script[1] .. ".lua"
  arg = {[0] = path, table.unpack(script, 2)}
  local ok, message = pcall(dofile, path)
  soma.core, soma.kernel, print = core, kernel, say
  if not ok then error(path .. ": " .. tostring(message), 0) end
  return runs, kernels
end

-- scripts: M.scripts where they are left out; options: of every soma.kernel.
function M.each(f, scripts, options)
  for _, script in ipairs(scripts or M.scripts) do
    local runs, kernels = watch(script, options)
    local n, seen = 0, {}
    for _, r in ipairs(runs) do
      for _, k in ipairs(kernels) do
        if k.made == r.program and not seen[k] then
          seen[k], n = true, n + 1
          f(script[1] .. " " .. n, k, r.inputs, r.time_ns)
        end
      end
    end
    assert(n > 0, script[1] .. " runs no kernel")
  end
end

return M
