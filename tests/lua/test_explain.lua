-- soma-as --explain of an operator names an operand exactly if a program may have it there, on some
-- engine, for some type and target.
local t = require "harness"
local soma = require "soma"
local eq = t.eq

-- The operand at %s; 1 and 0 stand for an immediate that is there, or is not.
local places = {
  ["op of tensor_tensor"] = {"tensor_tensor T, T, T, op=%s"},
  ["op0 of tensor_scalar"] = {"tensor_scalar T, T, op0=%s, imm0=1", "tensor_scalar T, T, op0=%s"},
  ["op1 of tensor_scalar"] = {
    "tensor_scalar T, T, op0=add, imm0=1, op1=%s, imm1=1", "tensor_scalar T, T, op0=add, imm0=1, op1=%s",
    "tensor_scalar T, T, op0=bitwise_and, imm0=1, op1=%s, imm1=1",
    "tensor_scalar T, T, op0=bitwise_and, imm0=1, op1=%s"},
  ["op1 of scalar_tensor_tensor"] = {"scalar_tensor_tensor T, T, T, op0=mult, imm0=2.0, op1=%s"},
  ["op of tensor_reduce"] = {"tensor_reduce C, T, op=%s"},
  ["op0 of tensor_tensor_scan"] = {"tensor_tensor_scan T, T, T, init=0.0, op0=%s, op1=add"},
  ["op1 of tensor_scalar_cumulative"] = {
    "tensor_scalar_cumulative T, T, op0=mult, imm0=1.0, op1=%s, imm1=0.0, reduce=load_reduce"},
  ["op1 of tensor_scalar_reduce"] = {"tensor_scalar_reduce T, T, op0=mult, imm0=1.0, op1=%s, reduce=reset_reduce"},
  ["op of partition_reduce"] = {"partition_reduce R, T, op=%s"},
  ["cmp of affine_select"] = {
    "affine_select T, T, pattern=[[1, 8]], offset=0, multiplier=1, cmp=%s, fill=0.0"},
}

local function allowed(op, forms)
  for _, form in ipairs(forms) do
    for _, dtype in ipairs {"float32", "int32"} do
      for _, engine in ipairs {"vector", "gpsimd", "scalar"} do
        local tiles = ("target trn3\nT tile sbuf %s[32, 8]\nC tile sbuf %s[32, 1]\nR tile sbuf %s[1, 8]\n")
          :format(dtype, dtype, dtype)
        if pcall(soma.assemble, tiles .. "section " .. engine .. "\n " .. form:format(op) .. "\n halt\n") then return true end
      end
    end
  end
  return false
end

local command = (os.getenv "BUILD" or "build") .. "/soma-as --explain "
t.case("operators stand where programs may have them", function()
  local some = {}
  local wrong = {}
  for _, op in ipairs(soma.isa.aluops) do
    local p <close> = io.popen(command .. op.name)
    local text = p:read("a"):gsub("%s+", " ")
    for place, forms in pairs(places) do
      local said = (text:find(place .. "[, ]") or text:find(place .. "$")) ~= nil
      local is = allowed(op.name, forms)
      some[place] = some[place] or is
      local skipped = op.name == "bypass" or text:find "no hardware has it" -- which the assembler has an option for
      if not skipped and said ~= is then
        wrong[#wrong + 1] = op.name .. (said and " cannot be " or " may be ") .. place
      end
    end
  end
  table.sort(wrong)
  eq(table.concat(wrong, "\n"), "")
  for place in pairs(places) do eq(place .. (some[place] and "" or " takes nothing: the test's program is wrong"), place) end
end)

t.finish()
