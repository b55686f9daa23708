/* soma.kernel: kernels without semaphores, from Lua. The C side gives the builder of
 * soma_kernel.h to the files in Lua beside it, which record calls and neither place, order nor
 * choose anything. */
#ifndef LUA_KERNEL_H
#define LUA_KERNEL_H

#include "../base/base.h"

/* Adds soma.kernel, soma.spmd and soma.jit to the module on the top of the stack. */
void lk_open(lua_State *L);

#endif
