-- The race check against a judge of its own: random programs whose semaphores only count. The judge
-- withholds the completion of one instruction for ever, lets all else go on as far as it can, and sees
-- whether another one still starts; two that meet race when each starts without the other. One run of
-- the check must agree, in both directions. JUDGE=100000 tries that many programs.
local soma = require "soma"
local harness = require "harness"
local random = math.random
local engines = {"vector", "scalar", "gpsimd"}
local SEMS, TILES = 4, 16

-- Steps of each engine: {wait = {sem, value} or nil, update = sem or nil, write = tile, read = tile}.
local function program()
  local p, total, tiles = {}, {0, 0, 0, 0}, random(4, TILES)
  for e in ipairs(engines) do
    p[e] = {}
    for i = 1, random(1, 4) do
      local s = {write = random(tiles), read = random(tiles)}
      if random(3) > 1 then
        s.update = random(SEMS)
        total[s.update] = total[s.update] + 1
      end
      p[e][i] = s
    end
  end
  for e in ipairs(engines) do
    for _, s in ipairs(p[e]) do
      local sem = random(SEMS)
      if random(3) > 1 and total[sem] > 0 then s.wait = {sem, random(total[sem])} end
    end
  end
  return p
end

-- How many steps of each engine start when step `held` of engine `by` never completes, nor what its
-- engine's data path does after it.
local function reach(p, by, held)
  local at, count, more = {0, 0, 0}, {0, 0, 0, 0}, true
  while more do
    more = false
    for e in ipairs(engines) do
      local s = p[e][at[e] + 1]
      if s and (not s.wait or count[s.wait[1]] >= s.wait[2]) then
        at[e], more = at[e] + 1, true
        if s.update and not (e == by and at[e] >= held) then count[s.update] = count[s.update] + 1 end
      end
    end
  end
  return at
end

local function judge(p)
  for e in ipairs(engines) do
    for i, a in ipairs(p[e]) do
      local without_a = reach(p, e, i)
      for f = e + 1, #engines do
        for k, b in ipairs(p[f]) do
          local meet = a.write == b.write or a.write == b.read or a.read == b.write
          if meet and without_a[f] >= k and reach(p, f, k)[e] >= i then return true end
        end
      end
    end
  end
  return false
end

local function ends(p)
  local at = reach(p, 0, 0)
  for e in ipairs(engines) do if at[e] < #p[e] then return false end end
  return true
end

local function text(p)
  local t = {" target trn2"}
  for i = 1, TILES do t[#t + 1] = "t" .. i .. " tile sbuf float32[128, 32]" end
  for i = 1, SEMS do t[#t + 1] = "s" .. i .. " sem" end
  for e, name in ipairs(engines) do
    t[#t + 1] = "section " .. name
    for _, s in ipairs(p[e]) do
      t[#t + 1] = string.format(" tensor_copy t%d, t%d%s%s", s.write, s.read,
        s.wait and string.format(" $s%d>=%d", s.wait[1], s.wait[2]) or "", s.update and " $s" .. s.update .. "++" or "")
    end
    t[#t + 1] = " halt"
  end
  return table.concat(t, "\n") .. "\n"
end

harness.case("the check agrees with the judge", function()
  local n, tried, faulty, right = tonumber(os.getenv "JUDGE") or 1500, 0, 0, 0
  for seed = 1, math.maxinteger do
    if tried == n then break end
    math.randomseed(seed)
    local p = program()
    if ends(p) then
      tried = tried + 1
      local want = judge(p)
      local core <close> = soma.core {checks = "race", schedule = random(0, 3)}
      local run = core:run(soma.assemble(text(p), {name = "p.s"}), {}, {faults = "return"})
      local got = run.fault ~= nil
      if got ~= want then
        error(string.format("seed %d: the judge says %s\n%s%s", seed, want and "race" or "none", text(p),
          got and tostring(run.fault) or "the check finds nothing"))
      end
      if want then faulty = faulty + 1 else right = right + 1 end
    end
  end
  harness.eq(faulty >= tried // 10 and right >= tried // 20, true, faulty .. " faulty, " .. right .. " right")
end)

harness.finish()
