-- Makes ZIP archives byte by byte, right or wrong in any field.
local zip = {}

local crcs = {}
for i = 0, 255 do
  local c = i
  for _ = 1, 8 do c = c & 1 == 1 and 0xedb88320 ~ (c >> 1) or c >> 1 end
  crcs[i] = c
end
function zip.crc(s)
  local c = 0xffffffff
  for i = 1, #s do c = crcs[(c ~ s:byte(i)) & 255] ~ (c >> 8) end
  return c ~ 0xffffffff
end

-- An archive of members {name=, data=, method=0, flags=0, size=#data (unpacked), packed=#data, crc=, at=}.
function zip.make(members, count)
  local body, directory = "", ""
  for _, m in ipairs(members) do
    local fields = string.pack("<I2I2I2I2I2I4I4I4I2I2", 20, m.flags or 0, m.method or 0, 0, 33,
      m.crc or zip.crc(m.data), m.packed or #m.data, m.size or #m.data, #m.name, 0)
    directory = directory .. "PK\1\2" .. string.pack("<I2", 20) .. fields ..
      string.pack("<I2I2I2I4I4", 0, 0, 0, 0, m.at or #body) .. m.name
    body = body .. "PK\3\4" .. fields .. m.name .. m.data
  end
  return body .. directory .. "PK\5\6" .. string.pack("<I2I2I2I2I4I4I2", 0, 0, count or #members,
    count or #members, #directory, #body, 0)
end

-- A .npy file.
function zip.npy(descr, shape, data)
  return "\x93NUMPY\1\0" .. string.pack("<s2", "{'descr': " .. descr ..
    ", 'fortran_order': False, 'shape': " .. shape .. ", }\n") .. data
end

return zip
