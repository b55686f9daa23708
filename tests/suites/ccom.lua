-- soma-ccom as a user meets it: the documented command lines of nccom-test with their columns, values that are
-- checked, JSON, and what is refused. Ends with "N passed, N failed".
local command = (os.getenv "BUILD" or "build") .. "/soma-ccom"
package.cpath = "./" .. (os.getenv "BUILD" or "build") .. "/?.so;" .. package.cpath
local soma = require "soma"
local passed, failed = 0, 0

local p = assert(io.popen "mktemp -d")
local dir = p:read "l"
p:close()
local function path(name) return dir .. "/" .. name end
local function write(name, text)
  local f = assert(io.open(path(name), "wb"))
  f:write(text)
  f:close()
end
local function read(name)
  local f = assert(io.open(path(name), "rb"))
  local s = f:read "a"
  f:close()
  return s
end

local function verdict(name, ok, what)
  if ok then passed = passed + 1 return end
  failed = failed + 1
  print("FAILED " .. name .. ": " .. tostring(what))
end

-- Exit status, standard output, standard error. %D is the test's folder.
local function run(arguments, before)
  local line = ("%s %s %s >%s/out 2>%s/err"):format(before or "", command, arguments:gsub("%%D", dir), dir, dir)
  local _, how, code = os.execute("timeout 300 " .. (before and "env " or "") .. line)
  return how == "exit" and code or 128 + code, read "out", read "err"
end

local function words(line)
  local list = {}
  for w in line:gmatch "%S+" do list[#list + 1] = w end
  return list
end

-- The tables of an output: {columns, rows = {{column = text}}, average}.
local function tables_of(out)
  local list = {}
  for line in out:gmatch "[^\n]+" do
    local now = list[#list]
    if line:find "size%(B%)" then
      list[#list + 1] = {columns = words(line), rows = {}}
    elseif line:find "^Avg bus bandwidth:\t" then
      now.average = tonumber(line:match "^Avg bus bandwidth:\t([%d.]+)GB/s$")
    else
      local row = {}
      for c, w in ipairs(words(line)) do row[now.columns[c]] = w end
      now.rows[#now.rows + 1] = row
    end
  end
  return list
end

-- What rows say of one another: sizes, rates, the average.
local function check_rates(name, t, factor)
  local sum = 0
  for _, row in ipairs(t.rows) do
    local us = tonumber(row["time:avg(us)"])
    local alg, bus = tonumber(row["algbw(GB/s)"]), tonumber(row["busbw(GB/s)"])
    local want = tonumber(row["size(B)"]) / us / 1000
    verdict(name .. ": algbw", us > 0 and math.abs(alg - want) <= 0.006 + want * 0.01 / us, row["size(B)"] .. " " .. alg .. " " .. want)
    verdict(name .. ": busbw", math.abs(bus - want * factor) <= 0.006 + want * factor * 0.01 / us, bus)
    sum = sum + bus
  end
  verdict(name .. ": average", math.abs(t.average - sum / #t.rows) < 0.01, t.average)
end

local COLUMNS <const> = "size(B) count(elems) type time:avg(us) algbw(GB/s) busbw(GB/s)"

-- c: {arguments, sizes, factor, columns, type, before}; one table.
local function documented(name, c)
  local status, out, err = run(c[1], c.before)
  verdict(name .. ": status", status == 0, err)
  if status ~= 0 then return end
  local t = tables_of(out)[1]
  verdict(name .. ": columns", table.concat(t.columns, " ") == (c.columns or COLUMNS), table.concat(t.columns, " "))
  local sizes = {}
  for i, row in ipairs(t.rows) do
    sizes[i] = row["size(B)"]
    verdict(name .. ": type", row.type == c.type, row.type)
  end
  verdict(name .. ": sizes", table.concat(sizes, " ") == c.sizes, table.concat(sizes, " "))
  check_rates(name, t, c.factor)
  verdict(name .. ": says that it is simulated", err:find("soma-ccom: simulated: ", 1, true), err)
  return t
end

write("pairs.json", "{\"src_target_pairs\": [[[0, 1], [1, 0], [2, 3], [3, 2], [4, 4], [5, 5], [6, 6], [7, 7]]]}")
write("allgv.json", [[{"metadata": [{"send_counts": [256], "send_displs": [0], "recv_counts": [256, 256, 256, 256], "recv_displs": [0, 256, 512, 768]}]}]])
write("alltoallv.json", [[{"metadata": [{"send_counts": [512, 1024], "send_displs": [0, 512], "recv_counts": [], "recv_displs": []}]}]])
local lists = {}
for g = 0, 3 do
  local list = {}
  for r = 0, 15 do list[#list + 1] = g * 16 + r end
  lists[#lists + 1] = "[" .. table.concat(list, ", ") .. "]"
end
write("stream_0_rg.json", "{\"replica_groups\": [[" .. table.concat(lists, ", ") .. "]]}")
write("streams.json", ([[{"streams": [
  {"operation": "all_reduce", "datatype": "bf16", "stepfactor": 32, "minbytes": "1KB", "maxbytes": "1MB", "custom_replica_groups": "%s/stream_0_rg.json"},
  {"operation": "allg", "datatype": "fp32", "ops_per_iter": 2, "minbytes": "1KB", "maxbytes": "1KB"}]}]]):format(dir))

-- ---- The documented lines (nccom-test.rst); the slow ones with fewer iterations ---------------------------

documented("all_reduce of 2", {"-r 2 allr", sizes = "33554432", factor = 1, type = "uint8"})
documented("all_reduce from 1 KiB to 1 GiB", {"-r 2 --minbytes 1kb --maxbytes 1gb --stepfactor 4 --datatype fp32 allr", factor = 1, type = "fp32",
  sizes = "1024 4096 16384 65536 262144 1048576 4194304 16777216 67108864 268435456 1073741824"})
local gathers = "-r 32 --minbytes 1kb --maxbytes 1mb --stepfactor 8 --datatype fp32 --check allg"
documented("all_gather of 32", {gathers, factor = 31 / 32, type = "fp32", sizes = "1024 8192 65536 524288"})
documented("pairs of a permute", {"-r 8 --custom-src-target-pairs %D/pairs.json permute", sizes = "33554432", factor = 1, type = "uint8"})
local t = documented("sizes of each rank", {gathers .. " --show-input-output-size -n 2 -w 1", factor = 31 / 32, type = "fp32", sizes = "1024 8192 65536 524288",
  columns = "size(B) count(elems) total_input_size(B) total_output_size(B) type time:avg(us) algbw(GB/s) busbw(GB/s)"})
verdict("input and output sizes", t.rows[2]["total_input_size(B)"] == "256" and t.rows[2]["total_output_size(B)"] == "8192", "")
t = documented("statistics", {"-r 8 --minbytes 1kb --maxbytes 1mb --stepfactor 8 --datatype fp32 --stats avg p25 p50 p90 p99 --iters 100 allg",
  factor = 7 / 8, type = "fp32", sizes = "1024 8192 65536 524288",
  columns = "size(B) count(elems) type time:avg(us) time:p25(us) time:p50(us) time:p90(us) time:p99(us) algbw(GB/s) busbw(GB/s)"})
verdict("percentiles are in order", tonumber(t.rows[1]["time:p25(us)"]) <= tonumber(t.rows[1]["time:p99(us)"]), "")
t = documented("JSON", {gathers .. " --report-to-json-file %D/r.json -n 2 -w 0", factor = 31 / 32, type = "fp32", sizes = "1024 8192 65536 524288"})
local json, n = read "r.json", 0
for object in json:gmatch "{[^{}]*}" do
  n = n + 1
  local size, us, alg = object:match '"size%(B%)": (%d+)', object:match '"time:avg%(us%)": ([%d.]+)', object:match '"algbw%(GB/s%)": ([%d.e-]+)'
  verdict("JSON's rates", math.abs(tonumber(alg) - size / us / 1000) < 1e-9 * tonumber(alg) + 1e-12, object)
  verdict("JSON's columns", object:find('"count(elems)": ' .. size // 4, 1, true) and object:find('"type": "fp32"', 1, true) and object:find('"busbw(GB/s)": ', 1, true), object)
  verdict("JSON is the table", size == t.rows[n]["size(B)"] and ("%.2f"):format(tonumber(us)) == t.rows[n]["time:avg(us)"], object)
end
verdict("JSON's rows", n == 4 and json:find '^{\n  "results": %[\n', json)
t = documented("algorithms", {"-r 16 allr -b 4 -e 1gb -f 16 -d fp32 --show-algorithm -n 2 -w 1", factor = 30 / 16, type = "fp32",
  sizes = "4 64 1024 16384 262144 4194304 67108864 1073741824", columns = COLUMNS .. " algorithm"})
verdict("the algorithms of small ones and large ones", t.rows[1].algorithm == "mesh" and t.rows[8].algorithm ~= "mesh", t.rows[8].algorithm)
documented("all_gatherv", {"allgv -r 4 -N 1 -b 2048 -e 2048 -d fp16 --variable-size-op-metadata %D/allgv.json --check", sizes = "2048", factor = 3 / 4, type = "fp16"})
documented("alltoallv", {"-r 2 -d fp32 alltoallv -b 1MB -e 1MB --variable-size-op-metadata %D/alltoallv.json -c -n 2", sizes = "1048576", factor = 1 / 2, type = "fp32"})

-- Several instances; the hosts of the command line change nothing.
t = documented("two instances", {"-r 64 -N 2 -b 8 -e 1GB -f 8 -n 2 -w 0 -d fp32 allr --hosts 127.0.0.1 10.1.4.138 --instance trn1.32xlarge --lnc 1", factor = 126 / 64, type = "fp32",
  sizes = "8 64 512 4096 32768 262144 2097152 16777216 134217728 1073741824", before = "NEURON_RT_ROOT_COMM_ID=10.1.4.145:45654"})
-- 16 devices of an instance send an all_reduce's bytes over EFA of 6.25 GB/s each, once: no row is faster.
for _, row in ipairs(t.rows) do verdict("EFA's bound", tonumber(row["algbw(GB/s)"]) <= 16 * 6.25, row["algbw(GB/s)"]) end
verdict("large ones are no slower than one device's EFA", tonumber(t.rows[10]["algbw(GB/s)"]) > 6.25, t.rows[10]["algbw(GB/s)"])
documented("alltoallv of two instances", {"-r 2 -N 2 -d fp32 alltoallv -b 1MB -e 1MB --hosts 127.0.0.1 172.32.253.16 --variable-size-op-metadata %D/alltoallv.json -n 2 -c",
  sizes = "1048576", factor = 1 / 2, type = "fp32"})

local status, out, err = run "allg -r 64 -c --streams-json %D/streams.json -n 2 -w 0"
t = tables_of(out)
verdict("streams", status == 0 and #t == 2 and #t[1].rows == 3 and #t[2].rows == 3, err)
verdict("sizes of streams", t[1].rows[3]["size(B)"] == "1048576" and t[2].rows[3]["size(B)"] == "1024" and t[2].rows[1].type == "fp32", out)
check_rates("stream 0", t[1], 30 / 16)
check_rates("stream 1", t[2], 63 / 64)

-- ---- Values ---------------------------------------------------------------------------------------------------

for _, line in ipairs {
  "-r 8 redsct -c -d uint8 -b 1 -e 64kb -f 64 --data-parallel-dimension 4",
  "-r 8 alltoall -c -d fp8 --unique-buff -b 1kb -e 64kb -f 64 --coalesced-cc-size-ratio [1,2,1] -n 2 -w 0",
  "-r 3 sendrecv -c all_ones -b 12kb -e 12kb --instance trn1.32xlarge",
  "-r 5 allr -c -d bf16 -b 5 -e 50kb -i 10kb --lnc 1 --seed 3 --algorithm ring",
  "-r 6 redsct -d int8 -b 12kb -e 12kb --instance inf2.24xlarge --check",
  "-r 4 allr --sb2sb -d fp16 -b 64kb -e 64kb -c", "-r 4 redsct --sb2sb -d int32 -b 64kb -e 64kb -c random",
  "-r 4 allg --sb2sb --cc-dim 0 -d bf16 -b 64kb -e 64kb -c", "-r 4 allg --sb2sb --cc-dim 1 -d uint16 -b 64kb -e 64kb -c",
  "-r 4 allr --sb2sb -d uint8 --input-shape [1,512][512,128] --output-shape '[1,512][512,128]' -b 64kb -e 64kb -c",
  "-r 6 -N 2 allr -c -d fp32 -b 6kb -e 6kb -n 1 -w 0 --lnc 1", "-r 4 -N 2 allg -c -b 4kb -e 4kb -n 1 -w 0 --instance trn1.2xlarge",
  "-r 6 -N 3 alltoall -c -b 6kb -e 6kb -n 1 -w 0", "-r 4 -N 4 redsct -c -b 4kb -e 4kb -n 1 -w 0 --lnc 2", "-r 4 -N 2 permute -c -b 4kb -e 4kb -n 1 -w 0",
  "-r 2 allr -I 3 -W 1 --shared-output-buff --non-interactive --debug -b 1kb -e 1kb -c --instance=trn3-gen1",
} do
  status, _, err = run(line)
  verdict(line, status == 0, err)
end

-- What the check says of outputs with one wrong element, of each operation.
local options = loadfile "lua/command/ccom_options.lua" {nearest = function() end}
local runs = loadfile "lua/command/ccom_run.lua"(options)
for _, op in ipairs {"allr", "allg", "redsct", "alltoall", "sendrecv"} do
  for _, type in ipairs {"uint8", "fp32", "fp8"} do
    local o = options.of_stream(options.parse {"-r", "4", op, "-d", type, "-c", "--lnc", "1"}, {}, 0)
    local s = runs.plan(o, 256, error)
    local function outputs(wrong)
      local w = soma.world {ranks = 4}
      local list, program = {}, soma.assemble((runs.program({s}, 1, "trn2")))
      local done = w:run(program, function(r) return runs.inputs_of({s}, 1, r) end)
      for r = 0, 3 do list[r] = {out = {y1_1_1 = done[r].out.y1_1_1:copy()}} end
      if wrong then
        local y = list[2].out.y1_1_1:view "uint8"
        y[y.size - 1] = y[y.size - 1] ~ 0x41
      end
      return list
    end
    verdict(op .. " of " .. type .. " is right", runs.check_part(o, s, 1, 1, outputs(false)) == nil, "it says that it is wrong")
    local said = runs.check_part(o, s, 1, 1, outputs(true))
    verdict(op .. " of " .. type .. " is wrong", said and said:find "^rank 2", said)
  end
end

-- ---- What is refused ----------------------------------------------------------------------------------------------

local function refused(line, message, before)
  local code, text, said = run(line, before)
  verdict(line, code == 2 and text == "" and said == "soma-ccom: " .. message:gsub("%%D", dir) .. "\ntry soma-ccom --help\n", code .. " " .. text .. said)
end
refused("", "-r is missing: it says how many ranks")
local status, out = run "-r 2 allr -b 1gb -e 2gb -f 16gb" -- 2^30 * 2^34 has no place in 64 bits
verdict("a factor that leads far past the last size", status == 0 and #tables_of(out)[1].rows == 1, out)
refused("-r 2", "an operation is missing, as all_reduce")
refused("-r 2 allq", "unknown operation 'allq'; there are: all_gather, all_gatherv, all_reduce, allg, allgv, allr, alltoall, alltoallv, permute, redsct, reduce_scatter, sendrecv")
refused("-r 2 allr allg", "'allg' is one operation too many")
refused("-r 2 allr --minbyte 4", "unknown option --minbyte, did you mean --minbytes?")
refused("-r 0 allr", "-r takes a whole number from 1 to 4096, not '0'")
refused("-r two allr", "-r takes a whole number from 1 to 4096, not 'two'")
refused("allr -r", "-r takes a value")
refused("-r 2 -r 3 allr", "-r is given twice")
refused("-r 2 allr -b 1tb", "-b takes a size from 1 to 1024GB, as 1024, 2kb or 1GB, not '1tb'")
refused("-r 2 allr -b 0", "-b takes a size from 1 to 1024GB, as 1024, 2kb or 1GB, not '0'")
refused("-r 2 allr -b 2mb -e 1mb", "--minbytes is 2097152, more than --maxbytes, which is 1048576")
refused("-r 2 allr -b 1kb -f 2 -i 5", "--stepbytes and --stepfactor are both given")
refused("-r 2 allr -b 1kb -f 1", "--stepfactor 1 does not come to --maxbytes")
refused("-r 2 allr -d fp64", "-d takes one of bf16, fp16, fp32, fp8, fp8e4, int16, int32, int8, uint16, uint32, uint8, not 'fp64'")
refused("-r 2 allr -t p101", "-t takes avg and percentiles, as p50, not 'p101'")
refused("-r 2 allr --check=some", "--check takes random or all_ones, not 'some'")
refused("-r 2 allr --seed 3", "--seed is of --check")
refused("-r 2 allr --unique-buff=1", "--unique-buff takes no value")
refused("-r 2 allr -W 2", "--neff_warmup_iters is of --neff_iters")
refused("-r 2 allr --cc-dim 0", "--input-shape, --output-shape and --cc-dim are of --sb2sb")
refused("-r 2 alltoall --sb2sb -b 1kb -e 1kb", "--sb2sb: all_reduce, all_gather and reduce_scatter, not alltoall")
refused("-r 2 allr --sb2sb --input-shape '[2,512][512,128]'", "--input-shape takes a dense shape of at most 128 partitions: [1,num0][num0,num1], not '[2,512][512,128]'")
refused("-r 2 allr --sb2sb -b 1kb -e 1kb --input-shape '[1,512][512,128]'", "--input-shape has 65536 elements, but it is 1024")
refused("-r 2 allr --coalesced-cc-size-ratio 1,2", "--coalesced-cc-size-ratio takes a list of 1 to 16 whole numbers, as [1,2,1], not '1,2'")
refused("-r 2 permute --coalesced-cc-size-ratio [1,2]", "--coalesced-cc-size-ratio: permute has one src and one dst")
refused("-r 6 allr --data-parallel-dimension 4", "--data-parallel-dimension 4 does not divide 6 ranks")
refused("-r 2 allr --instance trn9", "unknown instance 'trn9'; there are: " .. (function()
  local names = {}
  for i, instance in ipairs(soma.isa.instances) do names[i] = instance.name end
  return table.concat(names, ", ")
end)())
refused("-r 64 -N 3 allr", "--nnodes 3 does not divide 64 ranks")
refused("-r 64 -N 2 allr --instance trn2.3xlarge --lnc 1", "--nnodes 2: trn2.3xlarge has 8 cores, but 32 ranks of 1 need 32")
refused("-r 4 -N 2 allr --instance inf2.48xlarge", "--nnodes 2: inf2.48xlarge has no EFA, so several of them are not connected")
refused("-r 2000 -N 2 allr --lnc 1", "--nnodes 2: no instance of trn2 has 1000 cores, for 1000 ranks of 1")
refused("-r 2 allr", "NEURON_LOGICAL_NC_CONFIG is '3'; it is 1 or 2", "NEURON_LOGICAL_NC_CONFIG=3")
refused("-r 2 allr --lnc 1 --shared-output-buff", "--shared-output-buff: both cores of a rank share it, so --lnc is 2")
refused("-r 2 allr --custom-replica-groups %D/none.json", "cannot read '%D/none.json': No such file or directory")
write("bad.json", "{")
refused("-r 2 allr --custom-replica-groups %D/bad.json", "'%D/bad.json' is not JSON")
refused("-r 2 allr --custom-replica-groups %D/pairs.json", "replica_groups: the file has no such list of lists")
refused("-r 4 permute --custom-src-target-pairs %D/pairs.json", "src_target_pairs: 4 is no rank; they are 0 to 3")
refused("-r 4 allr --custom-src-target-pairs %D/pairs.json", "--custom-src-target-pairs is of permute, not of all_reduce")
refused("-r 8 allgv -b 2kb -e 2kb", "all_gatherv: groups have 4 ranks, not 8")
refused("-r 4 allgv -b 1kb -e 1kb -d fp16 --variable-size-op-metadata %D/allgv.json", "metadata: rank 0 sends 256 elements; of 1024 bytes each place has 128")
refused("-r 2 allr --variable-size-op-metadata %D/allgv.json", "--variable-size-op-metadata is of alltoallv and all_gatherv, not of all_reduce")
refused("-r 300 allr -d uint8 -b 1kb -e 1kb -c --instance trn2u.48xlarge --lnc 1", "--check: a sum of 300 ranks does not fit uint8")
write("few.json", "{\"streams\": [{\"nworkers\": 2}]}")
refused("-r 2 allr --streams-json %D/few.json", "stream 0: 'nworkers' is not an option of an operation")

status, out, err = run "-r 2000 allr -b 1kb -e 1kb"
verdict("too many ranks", status == 1 and out == "" and err:find "soma%-ccom: 1024 bytes: .*trn2 has 4000 cores" and err:find "1 errors found %- test failed", err)
status, out, err = run "-r 4 allr -b 1kb -e 1kb -s 10.1.4.145 10.1.4.138 --slurm-mode"
verdict("options of launching", status == 0 and err:find("--hosts, --slurm-mode: all ranks are simulated here", 1, true), err)
status, out = run "--help"
verdict("--help", status == 0 and out:find "^usage: soma%-ccom %-r RANKS OPERATION", out)
for line in out:gmatch "[^\n]+" do verdict("--help fits a terminal", #line <= 100, line) end
status, out = run "--version"
verdict("--version", status == 0 and out == "soma-ccom " .. soma.version .. "\n", out)

os.execute("rm -rf " .. dir)
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0)
