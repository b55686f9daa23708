-- The second half of compare.sh: runs benchmarks of two trees in turn and prints, for each row that
-- both have, the least time of the new one to the least of the base, the median of the ratios of each
-- round, and their range. Less than 1 is faster. Other work on the host only adds time, so the least
-- ones are the surest; the range says how far a round can be trusted.
--   lua5.4 tests/bench/compare.lua CLOCK.so BASE_TREE NEW_TREE NEW_BUILD ROUNDS BENCHMARK...
local clock, base_tree, new_tree, new_build, rounds = table.unpack(arg, 1, 5)
rounds = assert(math.tointeger(tonumber(rounds)), "ROUNDS is a number")

-- Which number of a row is a time (from its end when negative); the first if nothing is said here.
-- `key` numbers belong to the row's name; `rate` ones are better when larger.
local COLUMN <const> = {
  bench_asm = {value = 2, key = 1},
  bench_kern = {value = -2},
  bench_plain = {value = 2},
  bench_vm = {value = 1, rate = true},
}

-- A script of benchmarks runs from the new tree, on the programs of each.
local here <const> = assert(io.popen("pwd"):read())
local function command(name, build)
  if not name:find "%.lua$" then return ("'%s/tests/%s'"):format(build, name) end
  return ("'%s/soma' '%s/tests/bench/%s' --rows"):format(build, here, name)
end

local function rows_of(name, tree, build)
  local how = COLUMN[name] or {value = 1}
  local p = assert(io.popen(("cd '%s' && LD_PRELOAD='%s' %s"):format(tree, clock, command(name, build))))
  local names, values = {}, {}
  for line in p:lines() do
    local label, rest = line:match "^(%S.-)%s%s+(%d.*)$"
    local numbers = {}
    for word in (rest or ""):gmatch "%S+" do
      local n = tonumber(word)
      if not n then break end
      numbers[#numbers + 1] = n
    end
    local value = numbers[how.value < 0 and #numbers + 1 + how.value or how.value]
    if value and value > 0 then
      if how.key then label = label .. " " .. string.format("%g", numbers[how.key]) end
      if not values[label] then names[#names + 1] = label end
      values[label] = how.rate and 1 / value or value
    end
  end
  if not p:close() then error(name .. " of " .. tree .. " fails", 0) end
  return names, values
end

local function median(list)
  table.sort(list)
  local n = #list
  return n % 2 == 1 and list[n // 2 + 1] or (list[n // 2] + list[n // 2 + 1]) / 2
end

print(string.format("%-44s %8s %8s %8s %8s", "new / base, processor time, " .. rounds .. " rounds",
  "of least", "median", "least", "most"))
for i = 6, #arg do
  local name, order, ratios, least = arg[i], nil, {}, {}
  for _ = 1, rounds do
    local _, base = rows_of(name, base_tree, "build")
    local names, new = rows_of(name, new_tree, new_build)
    order = order or names
    for _, row in ipairs(names) do
      if base[row] then
        ratios[row] = ratios[row] or {}
        least[row] = least[row] or {new = math.huge, base = math.huge}
        table.insert(ratios[row], new[row] / base[row])
        least[row].new = math.min(least[row].new, new[row])
        least[row].base = math.min(least[row].base, base[row])
      end
    end
  end
  print(name)
  for _, row in ipairs(order) do
    local r, l = ratios[row], least[row]
    if r then
      print(string.format("  %-42.42s %8.3f %8.3f %8.3f %8.3f", row, l.new / l.base, median(r), r[1], r[#r]))
    else
      print(string.format("  %-42.42s %8s", row, "new"))
    end
  end
end
