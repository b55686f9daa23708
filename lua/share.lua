-- A sweep over the processes of an MPI job: process 0 hands the variants out as processes become
-- free, and every process gets all rows, so that the script goes on alike in all of them.
--
--   others to 0   "open" MARK               one variant more can be worked on
--                 "row " MARK N ROW PRINTED a variant is done; one more can be worked on
--   0 to others   "work" N   "rows" ROWS
--                 "next"                    process 0 has come to its next sweep, or to a world
--                 "end "                    process 0 has come to its end: nothing follows
-- A mark is the number of the sweep and a hash of its variants.
local _, host = ...
local job = host.job
-- Each process counts its sweeps, and so all give the same numbers.
local sweeps = 0
local waiting = false -- the others are at the end of a sweep, until process 0 comes to something else

local function mark_of(variants)
  sweeps = sweeps + 1
  -- The numbers of sweeps differ even if their variants are the same.
  return string.pack("<I4I8", sweeps, host.hash(host.json(variants)))
end
local MARK = 12

-- Process 0 is the one that sends.
local function tell_all(message)
  for p = 1, job.size - 1 do job.send(p, message) end
end

local share = {}

local function go_on()
  if waiting then tell_all "next" end
  waiting = false
end

-- All processes move a world: those that wait after a sweep go on.
share.before_world = go_on

-- Process 0. `take` is given each row; it says how many are left.
function share.hand_out(variants, missing, pool, take)
  go_on()
  local mark, at, left = mark_of(variants), 1, #missing
  local function obey(from, message)
    -- Behind the four letters of the message.
    local theirs = message:sub(5, 4 + MARK)
    if string.unpack("<I4", theirs) < sweeps then return end -- it comes late
    if theirs ~= mark then
      error("sweep: process " .. from .. " of " .. job.size .. " has different variants from process 0:" ..
        " a script must give the same in all of them", 0)
    end
    if message:sub(1, 4) == "row " then
      local n, packed, printed = string.unpack("<I4s4s4", message, 5 + MARK)
      take(n, packed, printed)
      left = left - 1
    end
    -- Whoever says that it is free gets the next variant.
    if missing[at] then
      job.send(from, "work" .. string.pack("<I4", missing[at]))
      at = at + 1
    end
  end
  while left > 0 do
    local from, message = job.receive()
    while from do
      obey(from, message)
      -- All messages that are there, before this process waits again.
      from, message = job.receive()
    end
    if missing[at] and pool:has_room() and pool:start(missing[at]) then at = at + 1 end
    -- Only a millisecond: messages must not wait for this process's own variants.
    local n, packed, printed = pool:wait(1)
    if n then
      take(n, packed, printed)
      left = left - 1
    end
  end
end

function share.give(rows)
  local parts = {"rows"}
  -- In the order of the variants, so that no numbers are needed.
  for i, packed in ipairs(rows) do parts[i + 1] = string.pack("<s4", packed) end
  tell_all(table.concat(parts))
  waiting = true
end

local function read_rows(message)
  -- Behind the four letters.
  local rows, at = {}, 5
  while at <= #message do rows[#rows + 1], at = string.unpack("<s4", message, at) end
  return rows
end

-- The next message, when it comes.
local function await(idle)
  while true do
    -- Only process 0 sends to the others.
    local _, message = job.receive()
    if message then return message end
    idle()
  end
end

-- The next message of a sweep. Process 0 does not end before it has all rows, unless it never comes to the sweep.
local function await_work(idle)
  local message = await(idle)
  if message ~= "end " then return message end
  error("sweep: process 0 has ended its script, but this one works on a sweep: a script must give the same in all of them", 0)
end

-- Another process: works until process 0 has all rows, gives them packed once another sweep follows.
function share.work(variants, pool)
  local mark, waiting = mark_of(variants), {}
  -- One for each variant that it can work on at a time.
  -- As many as its pool has room for.
  for _ = 1, pool.jobs do job.send(0, "open" .. mark) end
  local function idle()
    -- A process may not be there to be had now; it is asked for again.
    if waiting[1] and pool:start(waiting[1]) then table.remove(waiting, 1) end
    local n, packed, printed = pool:wait(1)
    if n then job.send(0, "row " .. mark .. string.pack("<I4s4s4", n, packed, printed)) end
  end
  local message = await_work(idle)
  while message:sub(1, 4) ~= "rows" do
    -- Variants that were given out wait until there is room for them.
    if message:sub(1, 4) == "work" then waiting[#waiting + 1] = string.unpack("<I4", message, 5) end
    message = await_work(idle)
  end
  local rows = read_rows(message)
  repeat
    -- Asleep, as there is nothing to work on.
    message = await(function() host.wait({}, 1) end)
    if message == "end " then job.leave() end -- with all that followed done by process 0
  until message == "next"
  return rows
end

return share
