-- Processes of this host that work on variants. One that a signal ends is begun once more.
local _, host = ...

local pool = {}
pool.__index = pool

function pool:__close()
  -- Also after an error: no process works on for nobody.
  for _, p in ipairs(self.alive) do p:close() end
end

function pool:has_room() return #self.alive < self.jobs end

-- Begins variant n; false when the host has no process to give now, but has given some.
function pool:start(n)
  local process, message = host.start(function() return self.work(n) end)
  -- With others alive there will be room again.
  if not process and #self.alive == 0 then error("sweep: cannot start a process: " .. message, 0) end
  if not process then return false end
  self.alive[#self.alive + 1], self.whose[#self.whose + 1] = process, n
  return true
end

-- One that has ended: its variant, what `work` gave, or `failed` of how it ended, and what it printed.
-- Nil when none has in so many milliseconds.
function pool:wait(milliseconds)
  local i = host.wait(self.alive, milliseconds)
  if not i then return end
  local n, process = table.remove(self.whose, i), table.remove(self.alive, i)
  -- `killed` is the number of the signal, nil if there was none.
  local packed, printed, ending, killed = host.collect(process)
  process:close()
  -- A signal may be the host's and not the variant's fault, as when memory is short.
  if killed and not self.again[n] then
    self.again[n] = ending
    if self:start(n) then return end
  end
  if killed and self.again[n] then ending = self.again[n] .. ", and again by signal " .. killed end
  return n, packed or self.failed(ending), printed
end

return function(jobs, work, failed)
  return setmetatable({jobs = jobs, work = work, failed = failed, alive = {}, whose = {}, again = {}}, pool)
end
