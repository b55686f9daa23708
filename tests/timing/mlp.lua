-- Published times of an MLP on two cores against simulated ones, held back: prints published, simulated,
-- error, as timing.c does. The published ones are those of whole launches; what is simulated is the run.
-- So they differ by what a launch takes, and beside the rows stands what 1 MB of weights adds.
--   soma tests/timing/mlp.lua [FOLDER OF mlp.lua]
local published, time_us = assert(loadfile((arg[1] or "samples") .. "/mlp.lua"))("timing")

-- The slope of the line through points {x, y}, by least squares.
local function slope(points)
  local n, sx, sy, sxx, sxy = #points, 0, 0, 0, 0
  for _, p in ipairs(points) do
    sx, sy, sxx, sxy = sx + p[1], sy + p[2], sxx + p[1] * p[1], sxy + p[1] * p[2]
  end
  return (n * sxy - sx * sy) / (n * sxx - sx * sx)
end
local function median(list)
  table.sort(list)
  return (list[(#list + 1) // 2] + list[#list // 2 + 1]) / 2
end

print(("%-44s %14s %14s %8s"):format("held back, two cores, without the launch", "published ns", "simulated ns", "error %"))
local errors, apart, theirs, ours = {}, {}, {}, {}
for i, row in ipairs(published) do
  local T, H, I, norm, us = table.unpack(row)
  local got, mb = time_us(row, 2), 6 * H * I / 1e6
  errors[i], apart[i] = math.abs(100 * (got / us - 1)), us - got
  theirs[i], ours[i] = {mb, us}, {mb, got}
  print(("trn2 %-39s %14.0f %14.1f %+8.1f"):format(("mlp %d x %d x %d%s"):format(T, H, I, norm and ", norm" or ""),
    us * 1000, got * 1000, 100 * (got / us - 1)))
end
local a, b = slope(theirs) * 1000, slope(ours) * 1000
print(("trn2 %-39s %14.0f %14.1f %+8.1f"):format("1 MB of weights more", a, b, 100 * (b / a - 1)))
print(("%-44s median error %5.1f %%, worst %5.1f %%"):format("held back, two cores, without the launch", median(errors), math.max(table.unpack(errors))))
table.sort(apart)
print(("published - simulated: median %.1f us, %.1f to %.1f us"):format(median(apart), apart[1], apart[#apart]))
