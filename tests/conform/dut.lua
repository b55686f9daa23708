-- Runs a case on another implementation: files in, files out (tests/README.md).
local soma = require "soma"
local M = {}

function M.run(command, source, inputs)
  local dir = os.tmpname()
  os.remove(dir)
  assert(os.execute("mkdir " .. dir))
  local prog = soma.assemble(source, {name = "program.s"})
  local f = assert(io.open(dir .. "/program.s", "w"))
  f:write(source)
  f:close()
  prog:save(dir .. "/program.sbc")
  for name, t in pairs(inputs) do assert(t:save_npy(dir .. "/" .. name .. ".npy")) end
  local ok = os.execute(command .. " " .. dir)
  local out = {}
  for _, t in ipairs(prog:tensors()) do
    if ok and t.role == "output" then
      out[t.name] = assert(soma.load_npy(dir .. "/" .. t.name .. ".npy", {dtype = t.dtype}))
    end
  end
  os.execute("rm -rf " .. dir)
  assert(ok, "the command failed")
  return out
end

return M
