-- Prints the fuzzers' dictionary: every word of the tables, and what the grammar adds.
--   lua5.4 tests/fuzz/dict.lua >DICTIONARY
local tables = { -- file, macro, argument that is the word
  { "isa/opcodes.def", "INSN", 1 }, { "isa/forms.def", "FIELD", 2 },
  { "isa/dtypes.def", "DTYPE", 1 }, { "isa/aluops.def", "ALUOP", 1 },
  { "isa/actfns.def", "ACTFN", 1 }, { "isa/enums.def", "ITEM", 2 },
  { "isa/engines.def", "ENGINE", 1 }, { "isa/targets.def", "TARGET", 1 },
  { "asm/line/pseudo.def", "PSEUDO", 1 }, { "asm/line/pseudo.def", "OPERAND", 2 },
  { "asm/text/builtins.def", "[%w_]*BUILTIN", 1 }, { "asm/pp/directives.def", "DIRECTIVE", 2, "%" },
  { "asm/pp/directives.def", "CONDITION", 2, "%if" }, { "asm/pp/directives.def", "CONDITION", 2, "%elif" },
}
local grammar = [==[
group remote pairs=[[0,1],[1,0]] .rank[ .rank[g.next] .rank[g.prev] .rank[g.xor .rank[g[1]] .rank[dst] .rank[1] cc0 cc1 owner=cc0 gpsimd.x
align dma equ extern global queue section sem target tensor tile loop endloop
input output const temp rings= dge= owner= prio= overlay= banks= at= bytes= core= none
.ap( .view( .broadcast( .gather( .indirect( .shape .dtype .bytes sizeof( addr( offset= float(
[r3:+r4<=128,:] [0:128,0:1] [:,::2] [::-1] float32@sbuf[0,128,0][1][512] int32@hbm[a,0][1][4]
+r3*2048 +(int32@sbuf[0,1,0][][])*4 $loaded++ $loaded>=16 $S[12] $s==r1 $x+=4@read @complete
%%x %$x %1 %0 %{1:-1} %+ %endif %else %if %rep %endrep %macro %endm %00 %?
\ ; , : :: ( ) [ ] { } == != <= >= << >> && || ++ -- += -= ? 0x 0b 0o 1e+10 inf nan 'a'
max min abs ceil_div align_up strlen __FILE__ __LINE__ __TARGET__
]==]
local seen = {}
local function put(word)
  if seen[word] then return end
  seen[word] = true
  print('"' .. word:gsub('[\\"]', "\\%0") .. '"')
end
for _, t in ipairs(tables) do
  local n = 0
  for line in io.lines(t[1]) do
    local args = line:match("^" .. t[2] .. "%((.*)")
    if args then
      local i = 0
      for arg in args:gmatch("[^,]+") do
        i = i + 1
        local word = arg:match('^%s*"?([%w_]*)')
        if i == t[3] then
          put((t[4] or "") .. word)
          n = n + 1
        end
      end
    end
  end
  assert(n > 0, t[1] .. " has no " .. t[2])
end
for word in grammar:gmatch("%S+") do put(word) end
