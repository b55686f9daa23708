-- The Lua module for LuaRocks, from a checkout: luarocks --lua-version 5.4 make lua/soma-scm-1.rockspec
-- (in the top folder). It needs what README.md lists for the build.
rockspec_format = "3.0"
package = "soma"
version = "scm-1"
source = {url = "git+file://."}
description = {
   summary = "Runs programs for AWS NeuronCores: emulator, assembler, kernel builder, host tensors",
   detailed = [[
Five engines and sixteen DMA engines with HBM, SBUF and PSUM; the same bits on every host, and a
simulated time. The module assembles programs, builds kernels, runs them, and has host tensors of
every machine type.]],
   license = "MIT",
}
supported_platforms = {"linux"}
dependencies = {"lua == 5.4"}
build = {
   type = "make",
   build_target = "build/soma.so",
   build_variables = {CFLAGS = "$(CFLAGS)", LUA_CFLAGS = "-I$(LUA_INCDIR)"},
   install_pass = false,
   install = {lib = {soma = "build/soma.so"}},
}
