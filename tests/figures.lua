-- Writes measured figures into the READMEs, between `<!-- figures: NAME -->` and `<!-- /figures -->`.
--   lua5.4 tests/figures.lua NAME...      (`make figures FIGURES="NAME..."`)
-- Run from the root of the project, with the build in $BUILD.
local build = os.getenv "BUILD" or "build"

local function read(path)
  local f = assert(io.open(path, "rb"))
  local s = f:read "a"
  f:close()
  return s
end

local function output(command)
  local p = assert(io.popen(command))
  local s = p:read "a"
  if not p:close() then error(command .. " fails", 0) end
  return s
end

local FIGURES <const> = {
  timing = {"tests/README.md", function()
    local text = output(build .. "/tests/timing tests/timing"):gsub("\n[^\n]* s of simulation\n$", "\n")
    text = text:gsub("\n+$", "\n\n") .. output(build .. "/soma tests/timing/mlp.lua")
    return "```\n" .. text .. "```\n"
  end},
  checks = {"vm/check/README.md", function() return output(build .. "/soma tests/bench/check.lua --markdown") end},
  builder = {"kernel/README.md", function() return "```\n" .. output(build .. "/tests/bench_kernel") .. "```\n" end},
  policies = {"kernel/README.md", function() return output(build .. "/soma tests/bench/policies.lua") end},
  threads = {"tests/README.md", function() return output(build .. "/soma tests/bench/curves.lua") end},
  mutants = {"tests/README.md", function()
    return output("lua5.4 tests/mutants.lua --all"):match "\n(Of %d+ mutants[^\n]*\n)"
  end},
}

for _, name in ipairs(arg) do
  local path, measure = table.unpack(FIGURES[name] or error("no figures " .. name .. "; there are: timing checks builder policies threads mutants", 0))
  local text = read(path)
  local _, from = text:find("<!-- figures: " .. name .. " -->\n", 1, true)
  local to = from and text:find("<!-- /figures -->", from, true)
  if not to then error(path .. " has no place for the figures " .. name, 0) end
  local new = measure() or error("the command for " .. name .. " says nothing", 0)
  local f = assert(io.open(path, "wb"))
  assert(f:write(text:sub(1, from), new, text:sub(to)))
  assert(f:close())
  print(path .. ": " .. name)
end
