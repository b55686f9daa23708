-- The data of a program that the soma command runs: where tensors come from and go, by the names of
-- the command line. Gets the host's facts. A message says what is wrong, nil that nothing is.
local host = ...
local soma = require "soma"

-- Where a tensor is, or goes: the path, the name in it, and which functions have to do with it.
-- FILE.npy has one tensor, FILE.npz and FILE.safetensors have several, FILE.npz:NAME is one of them.
local archives = {
  npz = {load = soma.load_npz, save = soma.save_npz, names = soma.npz_names},
  safetensors = {load = soma.load_safetensors, save = soma.save_safetensors, names = soma.safetensors_names},
}
local function place(file, name)
  -- The member's name follows a colon; without one it is the tensor's own.
  for extension, archive in pairs(archives) do
    local path, member = file:match("^(.+%." .. extension .. "):(.+)$")
    if path then return path, member, archive end
    if file:match("%." .. extension .. "$") then return file, name, archive end
  end
  -- Anything else is one .npy file, whatever its name.
  return file
end

-- "-" is standard output, which a file's name stands for as well.
local standard = {["-"] = "/dev/stdout", ["/dev/stdout"] = "/dev/stdout"}

local function without_place(message) return (tostring(message):gsub("^soma:%d+: ", "")) end

-- Calls a loader: what it gives, or nil and a message when the file is bad.
local function try(f, ...)
  local ok, result, message = pcall(f, ...)
  if not ok then return nil, without_place(result) end
  return result, message
end

-- ---- Data that are made ---------------------------------------------------------------------

-- zeros, ones, arange, randn[:SEED], uniform[:SEED[:LO:HI]]: a function of type and shape, or nil
-- and, where it begins like one of them, what is wrong.
local function made(spec)
  -- Letters up to the first colon.
  local kind, rest = spec:match "^(%l+)(.*)$"
  local numbers = {}
  local most = ({zeros = 0, ones = 0, arange = 0, randn = 1, uniform = 3})[kind]
  -- More letters or a name with a dot: a file.
  if not most or rest ~= "" and rest:sub(1, 1) ~= ":" then return end
  -- An empty part between colons is no number, and kept as false.
  for word in rest:gmatch ":([^:]*)" do numbers[#numbers + 1] = tonumber(word) or false end
  for i, n in ipairs(numbers) do
    -- A seed is whole; the ends of a range need not be.
    if not n or i == 1 and not math.tointeger(n) or i > most then numbers.wrong = true end
  end
  -- One end of a range says nothing without the other.
  if numbers.wrong or #numbers == 2 then
    return nil, "data can be made by zeros, ones, arange, randn[:SEED] or uniform[:SEED[:LO:HI]], not by '" .. spec .. "'"
  end
  if numbers[2] and numbers[2] >= numbers[3] then
    return nil, "uniform:SEED:LO:HI needs LO below HI, not " .. numbers[2] .. " and " .. numbers[3]
  end
  -- Without a seed it is 0, so that runs repeat.
  local how = {seed = math.tointeger(numbers[1] or 0)}
  return function(dtype, shape)
    if kind == "randn" then return soma.randn(shape, dtype, how) end
    if kind == "uniform" then
      return soma.uniform(shape, dtype, {seed = how.seed, low = numbers[2], high = numbers[3]})
    end
    if kind ~= "arange" then return soma[kind](shape, dtype) end
    -- arange needs a count; the shape comes after.
    local n = 1
    for _, size in ipairs(shape) do n = n * size end
    return soma.arange(n, dtype):reshape(shape)
  end
end

-- What cannot be read may be meant as one of those words.
local function nearest_made(spec)
  -- Only the letters count: zeroes:1 may be meant as zeros.
  local near = host.nearest(spec:match "^%a*", {"zeros", "ones", "arange", "randn", "uniform"})
  return near and "; did you mean " .. near .. "?" or ""
end

-- ---- Names ----------------------------------------------------------------------------------

-- Files without a name stand for each input that they have and that is not given by name, and for
-- each output. What is wrong, or nil.
-- What is named by itself has its place already.
local function name_whole_files(prog, o)
  for _, path in ipairs(o["--out whole"]) do
    for _, t in ipairs(prog:tensors()) do
      if t.role == "output" and not o["--out"][t.name] then o["--out"][t.name] = path end
    end
  end
  -- Which whole file gave a tensor, for the message when another has it too.
  local from = {}
  for _, path in ipairs(o["--in whole"]) do
    local names, message = try(select(3, place(path)).names, path)
    if not names then return message end
    local has, found = {}, false
    for _, name in ipairs(names) do has[name] = true end
    for _, t in ipairs(prog:tensors()) do
      if t.role == "input" and has[t.name] then
        found = true
        -- Two whole files with one name are an error; a name that was given by --in
        -- wins.
        if from[t.name] then
          return "input tensor '" .. t.name .. "' is in " .. from[t.name] .. " and in " .. path
        elseif not o["--in"][t.name] then
          o["--in"][t.name], from[t.name] = path, path
        end
      end
    end
    -- It was given for nothing, which is a mistake in most cases.
    if not found then return path .. " has no input tensor of the program" end
  end
end

-- A file has one writer, a {who, path, whether it is text}, or several of one name, and is not the
-- program's (but a resumed run may be saved where it was), and its name fits what it gets; what is
-- wrong, or nil. Devices take what comes.
local function check_writers(writers, programs, resumed)
  -- In order, so that the message does not depend on the order of a table.
  table.sort(writers, function(a, b) return a[1] < b[1] end)
  local by, read = {}, {}
  -- All files of a linked program.
  for _, path in ipairs(programs) do read[path] = true end
  for _, w in ipairs(writers) do
    local who, path, text = w[1], w[2], w[3]
    local fits, message = host.fits_name(path, text)
    if not fits then return who .. ": " .. message end
    -- The saved run replaces the file it was resumed from.
    if read[path] and not (resumed and who == "--save") then
      return who .. " would write over the program, " .. path
    end
    -- Devices take what comes, from several as well.
    if not path:match "^/dev/" and (by[path] or who) ~= who then
      return by[path] .. " and " .. who .. " both write " .. path
    end
    by[path] = who
  end
end

-- Two tensors cannot be one member of a file; what is wrong, or nil.
local function check_outputs(o)
  local taken = {}
  local writers = {}
  for name, file in pairs(o["--out"]) do
    local path, member, archive = place(file, name)
    -- A NUL cannot be in a path, so the two parts cannot run into each other.
    local key = archive and path .. "\0" .. member
    if key and taken[key] then
      return "--out: two tensors would be '" .. member .. "' of " .. path
    end
    if key then taken[key] = true end
    -- Members of one archive have one writer: the file.
    writers[#writers + 1] = {archive and "--out " .. path or "--out " .. name, path}
  end
  for name, path in pairs(o["--csv"] or {}) do writers[#writers + 1] = {"--csv " .. name, path, true} end
  -- A saved run is bytes; the other two are text.
  for _, flag in ipairs {"--trace", "--html", "--save"} do
    if o[flag] then writers[#writers + 1] = {flag, o[flag], flag ~= "--save"} end
  end
  return check_writers(writers, o.programs, o["--resume"])
end

-- Checks the names on the command line against the program's tensors; what is wrong, or nil.
local function check_names(prog, o)
  local inputs, all, roles, missing, open = {}, {}, {}, {}, {}
  for _, t in ipairs(prog:tensors()) do
    -- Tensors with a register of rows get their first dimension when they are given.
    roles[t.name], open[t.name] = t.role, t.rows_register
    all[#all + 1] = t.name
    if t.role == "input" then inputs[#inputs + 1] = t.name end
  end
  -- Each flag's names must be the program's.
  for _, flag in ipairs {"--in", "--out", "--expect"} do
    for name in pairs(o[flag]) do
      if not roles[name] then
        return flag .. " " .. name .. ": the program has no tensor '" .. name .. "'" ..
          (#all == 0 and "" or "; its tensors: " .. table.concat(all, ", "))
      end
    end
  end
  for name in pairs(o["--rows"]) do
    if not roles[name] then return "--rows " .. name .. ": the program has no tensor '" .. name .. "'" end
    if not open[name] then return "--rows " .. name .. ": its first dimension is not left to the run" end
  end
  for _, name in ipairs(inputs) do
    -- A resumed run has its inputs in the file.
    if not o["--in"][name] and not o["--resume"] then
      -- Without data a run of times alone takes none.
      if not o["--timing-only"] then missing[#missing + 1] = name end
    end
  end
  if #missing == 1 then
    -- One missing tensor gets an example that can be copied.
    return "input tensor '" .. missing[1] .. "' has no data: give --in " .. missing[1] ..
      "=FILE.npy, or --in " .. missing[1] .. "=randn:1"
  elseif #missing > 1 then
    return "input tensors without data: " .. table.concat(missing, ", ") .. "; give each one --in NAME=FILE.npy, or --in NAME=randn:1"
  end
  for name in pairs(o["--in"]) do
    if roles[name] == "const" then
      return "--in " .. name .. ": const tensors have their data in the program"
    end
  end
  return check_outputs(o)
end

-- The tensors of the program that `flag` names, by name; nil and a message when a file is bad.
local function load(prog, o, flag)
  -- First who shares rows, then the data.
  local tensors, rows = {}, {}
  for _, t in ipairs(prog:tensors()) do
    -- Tensors that share a register of rows have one number of rows.
    if t.rows_register then rows[t.rows_register] = rows[t.rows_register] or o["--rows"][t.name] end
  end
  for _, t in ipairs(prog:tensors()) do
    -- Without --rows the shape is the declared one.
    t.shape[1] = rows[t.rows_register or ""] or t.shape[1] -- of data that are made
    local file = o[flag][t.name]
    local make, wrong
    -- Words like randn are looked at before files, as a file of that name would be
    -- ./randn.
    if file then make, wrong = made(file) end
    if wrong then
      return nil, flag .. " " .. t.name .. ": " .. wrong
    elseif make then
      local data, message = try(make, t.dtype, t.shape)
      if not data then return nil, flag .. " " .. t.name .. "=" .. file .. ": " .. message end
      tensors[t.name] = data
    elseif file then
      local path, member, archive = place(file, t.name)
      -- NumPy has no name for some types; the hint says what plain bits stand for.
      local how = {dtype = host.dtype_hint(t.dtype), names = archive and {member}}
      local data, message = try(archive and archive.load or soma.load_npy, path, how)
      if not data then return nil, message .. (archive and "" or nearest_made(file)) end
      -- An archive gives all that was asked for; here it is one member.
      if archive then data = data[member] end
      tensors[t.name] = data
    end
  end
  return tensors
end

-- Holds what a run has given against the tensors that --expect names; a message with the worst
-- elements when they differ.
local function compare(run, o, expected)
  -- In order, so that the first difference told is the same each time.
  local names = {}
  for name in pairs(expected) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    -- A tensor that is no output is fetched from the machine's memory.
    local got = run.out[name] or run:fetch(name)
    local ok, same, difference = pcall(soma.allclose, got, expected[name],
                                       -- Two NaNs in one place are equal here: the
                                       -- program was to make one.
                                       {rtol = o["--rtol"], atol = o["--atol"], equal_nan = true})
    if not ok then return "--expect " .. name .. ": " .. without_place(same) end
    if not same then return name .. " differs from " .. o["--expect"][name] .. ": " .. difference end
  end
end

-- Saves what was asked for, each file at once; nil, or a message.
local function save(run, o)
  local names, several = {}, {}
  for name in pairs(o["--out"]) do names[#names + 1] = name end
  table.sort(names)
  -- Archives are gathered first, since each file is written once.
  for _, name in ipairs(names) do
    local path, member, archive = place(o["--out"][name], name)
    local t, ok, message = run.out[name] or run:fetch(name), true, nil
    if not archive then
      ok, message = t:save_npy(path)
    elseif several[path] then
      several[path][member] = t
    else
      several[path] = {[member] = t}
      several[#several + 1] = path
    end
    if not ok then return message end
  end
  -- In the order in which their first member came.
  for _, path in ipairs(several) do
    local ok, message = try(select(3, place(path)).save, path, several[path])
    if not ok then return message end
  end
end

-- Also words that begin as one and are wrong: they are not files either.
-- Whether such a file is data to be made.
local function is_made(spec)
  local make, wrong = made(spec)
  return make ~= nil or wrong ~= nil
end

return {place = place, is_made = is_made, try = try, without_place = without_place, name_whole_files = name_whole_files,
        check_names = check_names, load = load, compare = compare, save = save, standard = standard}
