-- Records: an instruction of the user's as the words that the builder takes. Gives a function of a
-- kernel, an engine, an opcode's row and the arguments.
local soma, host = ...
local V = host.view

-- The bits of a record's fourth word.
local flags = {accumulate = 1, static = 2, swdge = 4, hwdge = 8}
local dge = {none = flags.static, swdge = flags.swdge, hwdge = flags.hwdge}

-- The bits of a float32, rounded from Lua's double.
local function bits_of(x) return (string.unpack("<I4", string.pack("<f", x))) end

local function names_of(values)
  local names = {}
  for name in pairs(values) do names[#names + 1] = name end
  table.sort(names)
  return table.concat(names, ", ")
end

-- A number that a tile of that type could not hold, or that is not whole.
-- What is wrong with the value of a memset of an integer type, if anything.
local function not_of_type(x, dtype)
  local n = math.tointeger(x)
  if not n then return ("must be a whole number for %s, not %s"):format(dtype, x) end
  local bits = 8 * (V.size[dtype] or 4)
  local low, high = 0, (1 << bits) - 1
  -- Types without a u are signed; bool is not one of them here.
  if not dtype:find "^u" then low, high = -(1 << bits - 1), (1 << bits - 1) - 1 end
  if n < low or n > high then return ("is %d: %s has %d to %d"):format(n, dtype, low, high) end
end

-- By the kind of a field: each appends words, or gives what is wrong.
local put = {}

function put.REG(words, x, what)
  if type(x) ~= "table" or getmetatable(x) ~= V.Register then return what .. " must be a register, as k:register gives it" end
  words[#words + 1] = x.id
end

-- The first word says what the second one is: 0 a number, 1 a register.
function put.INT(words, x, what)
  if x == nil then x = 0 end
  if math.type(x) == "integer" then
    if x < -V.MOST - 1 or x > V.MOST then return ("%s is %d: it must be a signed number of 32 bits"):format(what, x) end
    words[#words + 1], words[#words + 2] = 0, x
  elseif type(x) == "table" and getmetatable(x) == V.Register then
    words[#words + 1], words[#words + 2] = 1, x.id
  else
    return what .. " must be a whole number or a register, not " .. tostring(x)
  end
end

-- Four forms: 0 none, 1 a number, 2 a register, 3 a view.
function put.NUM(words, x, what, whole, _, k)
  if x == nil then
    words[#words + 1] = 0
  elseif type(x) == "number" then
    local wrong = whole and not_of_type(x, whole)
    if wrong then return what .. " " .. wrong end
    words[#words + 1], words[#words + 2] = 1, whole and math.tointeger(x) or bits_of(x)
  elseif V.is_view(x) then
    words[#words + 1] = 3
    V.put_operand(words, x, k)
  elseif type(x) == "table" and getmetatable(x) == V.Register then
    words[#words + 1], words[#words + 2] = 2, x.id
  else
    return what .. " must be a number, a register or a [P, 1] view, not " .. tostring(x)
  end
end

-- 0: there is no operand.
function put.AP(words, x, what, _, _, k)
  if x == nil then
    words[#words + 1] = 0
  elseif V.is_view(x) then
    V.put_operand(words, x, k)
  else
    return what .. " must be a tile or a view, not " .. tostring(x)
  end
end

local function put_number(words, x, what)
  if x == nil then x = 0 end
  if math.type(x) ~= "integer" then return what .. " must be a whole number, not " .. tostring(x) end
  words[#words + 1] = x
end
put.U8, put.U16, put.U32, put.I32 = put_number, put_number, put_number, put_number

put.SEM = put_number -- 0: the builder has its own

-- Booleans are words as well, and numbers may stand for themselves.
local function put_name(words, x, what, _, field)
  local names = {[true] = "true", [false] = "false"}
  x = names[x] or x
  if x == nil then x = 0 end
  local value = field.values and field.values[x]
  if math.type(x) == "integer" then value = x end
  if not value then return what .. " must be one of " .. names_of(field.values) .. ", not " .. tostring(x) end
  words[#words + 1] = value
end
put.ENUM, put.ALU, put.ACTF = put_name, put_name, put_name

-- -1: the builder takes a queue of its own.
function put.QUEUE(words, x, what)
  if x ~= nil and (type(x) ~= "table" or not x.queue) then return what .. " must be a queue, as k:queue gives it" end
  words[#words + 1] = x and x.queue or -1
end

-- Groups are numbered by the builder, which shares equal ones.
function put.GROUP(words, x, what, _, _, k)
  local sizes, ranks = {}, {}
  local bad = type(x) ~= "table" or #x == 0
  for _, list in ipairs(bad and {} or x) do
    bad = bad or type(list) ~= "table" or #list == 0
    if bad then break end
    sizes[#sizes + 1] = #list
    -- Sizes and ranks in two lists, as the builder takes them.
    for _, r in ipairs(list) do
      bad = bad or math.type(r) ~= "integer" or r < 0 or r > V.MOST
      ranks[#ranks + 1] = r
    end
  end
  if bad then return what .. " must be lists of ranks, such as {{0, 1}, {2, 3}}" end
  local ok, number = k.handle:group(sizes, ranks)
  if not ok then return what .. ": " .. number end
  words[#words + 1] = number
end

-- A letter is a word.
function put.STR(words, x, what)
  if type(x) ~= "string" then return what .. " must be a string, not " .. tostring(x) end
  words[#words + 1] = #x
  for i = 1, #x do words[#words + 1] = x:byte(i) end
end

-- The number of items comes first.
local function list(take)
  return function(words, x, what, whole, field, k)
    if x == nil then x = {} end
    if type(x) ~= "table" or getmetatable(x) then return what .. " must be a list, not " .. tostring(x) end
    words[#words + 1] = #x
    for i, item in ipairs(x) do
      -- The item's number is in the message.
      local wrong = take(words, item, what .. " " .. i, whole, field, k)
      if wrong then return wrong end
    end
  end
end
put.BYTES, put.I32S, put.APS = list(put_number), list(put_number), list(put.AP)
put.F32S = list(function(words, x, what)
  if type(x) ~= "number" then return what .. " must be a number" end
  words[#words + 1] = bits_of(x)
end)
put.STEPS = list(function(words, x, what)
  if type(x) ~= "table" or #x ~= 2 or math.type(x[1]) ~= "integer" or math.type(x[2]) ~= "integer" then
    return what .. " must be {step, num}, two whole numbers"
  end
  words[#words + 1], words[#words + 2] = x[1], x[2]
end)

put.PAIRS = list(function(words, x, what)
  if type(x) ~= "table" or #x ~= 2 or math.type(x[1]) ~= "integer" or math.type(x[2]) ~= "integer" then
    return what .. " must be {from, to}, two ranks"
  end
  words[#words + 1], words[#words + 2] = x[1], x[2]
end)

local function has_field(op, name)
  for _, field in ipairs(op.fields) do
    if field.name == name then return true end
  end
  return false
end

-- Options that are not fields: how a transfer's descriptors are made, and whether a sum goes on.
local function flags_of(k, op, options)
  local f = 0
  if options.dge ~= nil then
    if not op.dma or not dge[options.dge] then k:refuse(op.name .. ": dge must be none, swdge or hwdge, of a transfer") end
    f = dge[options.dge]
  end
  -- Without acc the builder decides whether the sum begins or goes on.
  if options.acc == nil and has_field(op, "acc") then f = f | flags.accumulate end
  return f
end

-- Keywords of the instruction, and dge of transfers.
local function check_options(k, op, options)
  for name in pairs(options) do
    -- All names are collected for the message.
    local known, all = name == "dge" and op.dma, {}
    for _, field in ipairs(op.fields) do
      if not field.positional then
        known = known or field.name == name
        all[#all + 1] = field.name
      end
    end
    if not known then
      k:refuse(("%s has no option '%s'; it takes: %s"):format(op.name, tostring(name), table.concat(all, ", ")))
    end
  end
end

-- Whether a field is an operand of the call: semaphores are the builder's.
local function is_given(field) return field.positional and field.kind ~= "SEM" end

-- The words of one instruction. engine: its code, or -1. arguments: the positional operands and then
-- perhaps a table of keywords.
return function(k, engine, op, arguments)
  -- The first word is the number of words, known at the end.
  -- The user's line goes into every record.
  local file, line = k:here()
  local words, given, options = {0, op.number, engine, 0, file, line}, 0, {}
  local last = arguments[arguments.n]
  local count = arguments.n
  -- A table is options only where no operand can be one.
  if type(last) == "table" and getmetatable(last) == nil then
    -- More arguments than operands: the last one must be options.
    local positional = 0
    for _, field in ipairs(op.fields) do positional = positional + (is_given(field) and 1 or 0) end
    if count > positional then options, count = last, count - 1 end
  end
  check_options(k, op, options)
  words[4] = flags_of(k, op, options)
  for _, field in ipairs(op.fields) do
    local x
    if is_given(field) then
      -- Operands in the order of the call, keywords by name.
      given = given + 1
      x = arguments[given]
    else
      x = options[field.name]
    end
    -- Queues and semaphores have a value of the builder's.
    if x == nil and not field.optional and field.kind ~= "QUEUE" and field.kind ~= "SEM" then
      k:refuse(op.name .. " needs " .. field.name)
    end
    local dst = arguments[1]
    -- A memset of an integer type takes a whole number, not the bits of a float.
    local whole = op.name == "memset" and V.is_view(dst) and dst.dtype:find "int" and dst.dtype
    local wrong = put[field.kind](words, x, op.name .. ": " .. field.name, whole, field, k)
    if wrong then k:refuse(wrong) end
  end
  -- An operand too many would be dropped otherwise.
  if given < count then k:refuse(("%s takes %d operands, not %d"):format(op.name, given, count)) end
  words[1] = #words
  return words
end
