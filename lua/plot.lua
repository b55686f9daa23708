-- Charts as SVG text: lines and points over one or two logarithmic axes, or bars by category. The
-- colours follow the reader's light or dark scheme. Gives a function(chart) -> text, with
--   chart = {title, xlabel, ylabel, logx, logy, series = {{label, points = {{x, y}, ...}, marks}}}
-- or, for bars, chart.categories = {name, ...} and points {index, y}. marks: points without a line.
-- In px, as the page shows it unless it is scaled.
local WIDTH, HEIGHT = 720, 420
local LEFT, RIGHT, BOTTOM = 76, 24, 56 -- margins in px; the top one depends on the legend
local FONT = 13
local CHAR = 7.2 -- px a character of that font takes, about

local style = [[
<style>
svg{font:13px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif}
.bg{fill:#fff;stroke:#d0d7de}text{fill:#24292f}.title{font-weight:600;font-size:15px}
.small{font-size:12px}.grid{stroke:#d8dee4}.axis{stroke:#57606a}.l{fill:none;stroke-width:2}
.c1{stroke:#0969da;fill:#0969da}.c2{stroke:#bc4c00;fill:#bc4c00}.c3{stroke:#1a7f37;fill:#1a7f37}
.c4{stroke:#8250df;fill:#8250df}.c5{stroke:#9a6700;fill:#9a6700}.c6{stroke:#57606a;fill:#57606a}
.l.c1,.l.c2,.l.c3,.l.c4,.l.c5,.l.c6,.o{fill:none}.o{stroke-width:2}
@media(prefers-color-scheme:dark){.bg{fill:#0d1117;stroke:#30363d}text{fill:#e6edf3}
.grid{stroke:#2a313a}.axis{stroke:#8b949e}
.c1{stroke:#58a6ff;fill:#58a6ff}.c2{stroke:#ff9b52;fill:#ff9b52}.c3{stroke:#56d364;fill:#56d364}
.c4{stroke:#d2a8ff;fill:#d2a8ff}.c5{stroke:#e3b341;fill:#e3b341}.c6{stroke:#8b949e;fill:#8b949e}
.l.c1,.l.c2,.l.c3,.l.c4,.l.c5,.l.c6,.o{fill:none}}
</style>
]]

-- Labels come from the user.
local function escape(s)
  local names = {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;"}
  return (tostring(s):gsub('[&<>"]', names))
end

-- A short number: 0.25, 1500, 16 Ki, 25.6 k.
-- Powers of two first, as sizes of tiles and buffers are such.
local function short(v)
  local sizes = {{2 ^ 30, " Gi"}, {2 ^ 20, " Mi"}, {2 ^ 10, " Ki"}}
  for _, s in ipairs(sizes) do
    if v >= s[1] and v % s[1] == 0 then return string.format("%g%s", v / s[1], s[2]) end
  end
  for _, s in ipairs {{1e9, " G"}, {1e6, " M"}, {1e3, " k"}} do
    -- From ten of a unit on, so that 1500 stays 1500.
    if math.abs(v) >= 10 * s[1] then return string.format("%.4g%s", v / s[1], s[2]) end
  end
  return string.format("%.4g", v)
end

-- ---- Axes -------------------------------------------------------------------------------------

-- Over all series: they share the axes.
local function extent(chart, i)
  local lo, hi = math.huge, -math.huge
  for _, s in ipairs(chart.series) do
    for _, p in ipairs(s.points) do lo, hi = math.min(lo, p[i]), math.max(hi, p[i]) end
  end
  return lo, hi
end

-- 1, 2 or 5 times a power of ten, so that about n steps make the range.
local function nice_step(range, n)
  -- The power of ten below the wished step.
  local step = 10 ^ math.floor(math.log(range / n, 10))
  for _, f in ipairs {1, 2, 5} do
    if range / (f * step) <= n then return f * step end
  end
  return 10 * step
end

local function linear(lo, hi, from, to)
  -- Lengths of bars and heights of lines mean something only from 0.
  lo, hi = math.min(lo, 0), math.max(hi, 0)
  if hi <= lo then hi = lo + 1 end -- all are zero
  local step, ticks = nice_step(hi - lo, 6), {}
  -- Whole steps at both ends, so that the grid fills the plot.
  lo, hi = math.floor(lo / step) * step, math.ceil(hi / step) * step
  for i = 0, math.floor((hi - lo) / step + 0.5) do ticks[#ticks + 1] = lo + i * step end
  return {ticks = ticks, at = function(v) return from + (v - lo) / (hi - lo) * (to - from) end}
end

-- The axis of x: as wide as the data, ticks at the values when they are few.
local function spread(lo, hi, from, to, values)
  -- A single value gets some room around it.
  local pad = hi > lo and (hi - lo) * 0.04 or math.max(1, math.abs(lo) * 0.04)
  local step, ticks = nice_step(hi - lo + 2 * pad, 8), {}
  lo, hi = lo - pad, hi + pad
  for i = math.ceil(lo / step), math.floor(hi / step) do ticks[#ticks + 1] = i * step end
  local function at(v) return from + (v - lo) / (hi - lo) * (to - from) end
  -- The values themselves as ticks, if their labels do not run into each other.
  local roomy = values and #values <= 10
  for i = 2, roomy and #values or 0 do roomy = roomy and at(values[i]) - at(values[i - 1]) >= 38 end
  return {ticks = roomy and values or ticks, at = at}
end

-- Ticks at the values given, or at 1, 2, 5 and so on of each decade; those too close are left out.
local function logarithmic(lo, hi, from, to, values)
  local a, b = math.log(lo, 10), math.log(hi, 10)
  -- One value only: half a decade to both sides.
  if b - a < 1e-9 then a, b = a - 0.5, b + 0.5 end
  local pad = (b - a) * 0.03
  a, b = a - pad, b + pad
  local axis = {ticks = {}}
  function axis.at(v) return from + (math.log(v, 10) - a) / (b - a) * (to - from) end
  if not values then
    values = {}
    for d = math.floor(a), math.ceil(b) do
      -- Few decades have room for more than their powers.
      for _, f in ipairs(b - a < 2 and {1, 2, 5} or {1}) do
        local v = f * 10.0 ^ d
        if math.log(v, 10) >= a and math.log(v, 10) <= b then values[#values + 1] = v end
      end
    end
  end
  local last
  for _, v in ipairs(values) do
    -- 38 px, about the width of a label; the vertical axis has room for all.
    if not last or math.abs(axis.at(v) - last) >= 38 or from > to then
      axis.ticks[#axis.ticks + 1] = v
      last = axis.at(v)
    end
  end
  return axis
end

-- The values of x themselves, if they can be labels.
local function distinct_x(chart)
  local seen, list = {}, {}
  for _, s in ipairs(chart.series) do
    for _, p in ipairs(s.points) do
      if not seen[p[1]] then list[#list + 1] = p[1] end
      seen[p[1]] = true
    end
  end
  table.sort(list)
  -- More are too many for labels.
  return #list <= 24 and list or nil
end

-- ---- Drawing ----------------------------------------------------------------------------------

-- Six colours, and then the first again.
local function color(i) return "c" .. (i - 1) % 6 + 1 end

-- A series has a shape of its own too, for those who do not see the colours.
local function marker(out, i, x, y, hollow)
  local class = color(i) .. (hollow and " o" or "")
  local kind = (i - 1 + (i - 1) // 6) % 3 -- other shapes when the colours come again
  -- The three shapes are of about one size.
  if kind == 0 then
    out('<circle class="%s" cx="%.1f" cy="%.1f" r="4"/>', class, x, y)
  elseif kind == 1 then
    out('<rect class="%s" x="%.1f" y="%.1f" width="8" height="8"/>', class, x - 4, y - 4)
  else
    out('<path class="%s" d="M%.1f %.1fl5 8.5h-10z"/>', class, x, y - 5.5)
  end
end

-- The legend's rows above the plot; gives where the plot may begin.
local function legend(out, chart, y)
  -- One series needs no legend: the axis names it.
  if #chart.series < 2 then return y - 8 end
  local x = LEFT
  for i, s in ipairs(chart.series) do
    local w = 34 + #s.label * CHAR
    -- A label that does not fit begins a new row.
    if x > LEFT and x + w > WIDTH - RIGHT then x, y = LEFT, y + 20 end
    if chart.categories then
      out('<rect class="%s" x="%.1f" y="%.1f" width="10" height="10"/>', color(i), x, y - 9)
    else
      if not s.marks then out('<path class="l %s" d="M%.1f %.1fh22"/>', color(i), x - 4, y - 4) end
      marker(out, i, x + 7, y - 4, s.marks)
    end
    out('<text class="small" x="%.1f" y="%.1f">%s</text>', x + 24, y, escape(s.label))
    x = x + w + 14
  end
  return y + 14
end

-- Lines of the grid, each with its number.
local function y_axis(out, chart, axis, top, bottom)
  for _, v in ipairs(axis.ticks) do
    out('<path class="grid" d="M%d %.1fH%d"/>', LEFT, axis.at(v), WIDTH - RIGHT)
    out('<text class="small" text-anchor="end" x="%d" y="%.1f">%s</text>', LEFT - 8,
      axis.at(v) + 4, short(v))
  end
  local turned = string.format("translate(18 %.1f)rotate(-90)", (top + bottom) / 2)
  out('<text class="small" text-anchor="middle" transform="%s">%s</text>', turned,
    escape(chart.ylabel))
end

local function centered(out, x, y, text)
  out('<text class="small" text-anchor="middle" x="%.1f" y="%.1f">%s</text>', x, y, escape(text))
end

local function x_labels(out, chart, axis, bottom)
  -- How much room each label has.
  local widest, slot = 0, (WIDTH - LEFT - RIGHT) / #axis.ticks
  for _, name in ipairs(chart.categories or {}) do widest = math.max(widest, #name * CHAR) end
  for i, v in ipairs(axis.ticks) do
    local lower = widest > slot and i % 2 == 0 and 12 or 0 -- wide names take two rows in turn
    local text = chart.categories and chart.categories[i] or short(v)
    if not chart.categories then out('<path class="axis" d="M%.1f %dv5"/>', axis.at(v), bottom) end
    centered(out, axis.at(v), bottom + 18 + lower, text)
  end
  out('<path class="axis" d="M%d %dH%d"/>', LEFT, bottom, WIDTH - RIGHT)
  centered(out, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, chart.xlabel)
end

local function lines(out, chart, x, y)
  for i, s in ipairs(chart.series) do
    if not s.marks then
      local d = {}
      -- In the order of the rows, which is that of the sweep.
      for k, p in ipairs(s.points) do
        d[k] = string.format("%s%.1f %.1f", k == 1 and "M" or "L", x.at(p[1]), y.at(p[2]))
      end
      out('<path class="l %s" d="%s"/>', color(i), table.concat(d))
    end
    for _, p in ipairs(s.points) do marker(out, i, x.at(p[1]), y.at(p[2]), s.marks) end
  end
end

local function bars(out, chart, x, y)
  local slot = (WIDTH - LEFT - RIGHT) / #chart.categories
  -- Four fifths of the room, so that groups stand apart.
  local w = math.min(64, slot * 0.8 / #chart.series)
  for i, s in ipairs(chart.series) do
    for _, p in ipairs(s.points) do
      local left, to = x.at(p[1]) + (i - 1 - #chart.series / 2) * w, y.at(p[2])
      out('<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>', color(i), left + 1,
        -- Bars of negative values hang down from zero.
        math.min(to, y.at(0)), w - 2, math.abs(to - y.at(0)))
      centered(out, left + w / 2, p[2] < 0 and to + 14 or to - 5, string.format("%.3g", p[2]))
    end
  end
end

local function x_axis(chart, right)
  if chart.categories then
    local axis = {ticks = {}}
    local slot = (right - LEFT) / #chart.categories
    -- Categories have equal room, whatever their names.
    function axis.at(i) return LEFT + (i - 0.5) * slot end
    for i = 1, #chart.categories do axis.ticks[i] = i end
    return axis
  end
  local lo, hi = extent(chart, 1)
  if chart.logx then return logarithmic(lo, hi, LEFT, right, distinct_x(chart)) end
  return spread(lo, hi, LEFT, right, distinct_x(chart))
end

return function(chart)
  local parts = {}
  local function out(fmt, ...) parts[#parts + 1] = string.format(fmt, ...) .. "\n" end
  -- With its size, and a box by which it can be scaled.
  out('<svg xmlns="http://www.w3.org/2000/svg" role="img" width="%d" height="%d" ' ..
    'viewBox="0 0 %d %d">', WIDTH, HEIGHT, WIDTH, HEIGHT)
  out("<title>%s</title>", escape(chart.title))
  parts[#parts + 1] = style
  out('<rect class="bg" x="0.5" y="0.5" width="%d" height="%d" rx="6"/>', WIDTH - 1, HEIGHT - 1)
  local room = WIDTH - LEFT - RIGHT
  -- A title that is too long is narrowed, not cut.
  local squeezed = #chart.title * 8.4 > room and 
    string.format(' textLength="%d" lengthAdjust="spacingAndGlyphs"', room) or ""
  out('<text class="title" x="%d" y="28"%s>%s</text>', LEFT, squeezed, escape(chart.title))
  local top, bottom = legend(out, chart, 52), HEIGHT - BOTTOM
  if chart.categories then top = top + FONT end -- the tallest bar's number
  local lo, hi = extent(chart, 2)
  local y = chart.logy and logarithmic(lo, hi, bottom, top) or linear(lo, hi, bottom, top)
  local x = x_axis(chart, WIDTH - RIGHT)
  y_axis(out, chart, y, top, bottom)
  x_labels(out, chart, x, bottom)
  if chart.categories then bars(out, chart, x, y) else lines(out, chart, x, y) end
  out("</svg>")
  return table.concat(parts)
end
