local soma, host = ...

-- host.wrong_options: what is wrong with the options of a call, or nil. known: {name = type or "a|b"}.
return function(what, o, known)
  if type(o) ~= "table" then return what .. ": expected a table of options, not " .. type(o) end
  local names = {}
  for name in pairs(known) do names[#names + 1] = name end
  table.sort(names)
  for name, value in pairs(o) do
    local types = known[name]
    if not types then
      local near = type(name) == "string" and host.nearest(name, names)
      return string.format("%s: unknown option '%s'%s; it takes: %s", what, tostring(name),
        near and " (did you mean '" .. near .. "'?)" or "", table.concat(names, ", "))
    end
    if not ("|" .. types .. "|"):find("|" .. type(value) .. "|", 1, true) then
      local wanted = types:gsub("|", " or a ")
      return string.format("%s: option '%s' must be a %s, not a %s", what, name, wanted,
        type(value))
    end
  end
end
