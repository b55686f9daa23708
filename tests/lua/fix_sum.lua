-- Adds up what the processes of tests/advice.sh print.
local classes, order = {}, {}
local function class(name)
  if not classes[name] then
    classes[name] = {tried = 0, right = 0, reasons = {}}
    order[#order + 1] = name
  end
  return classes[name]
end

for line in io.lines() do
  local name, tried, right, reasons = line:match "^(%l+) +(%d+) removed waits, +(%d+) right *(.*)$"
  for _, to in ipairs(name and {class(name), class "all"} or {}) do
    to.tried, to.right = to.tried + tried, to.right + right
    for n, why in reasons:gmatch "(%d+) ([^;]+)" do to.reasons[why] = (to.reasons[why] or 0) + n end
  end
end

for _, name in ipairs(order) do
  local c, why = classes[name], {}
  for reason, n in pairs(c.reasons) do why[#why + 1] = n .. " " .. reason end
  table.sort(why)
  if name ~= "all" then
    print(string.format("%-10s %6d removed waits, %6d right  %s", name, c.tried, c.right, table.concat(why, "; ")))
  end
end
local all = class "all"
print(string.format("%-10s %6d removed waits, %6d right: %.2f %%", "all", all.tried, all.right, 100 * all.right / all.tried))
os.exit(all.right >= 0.97 * all.tried)
