/* Views of a kernel's tensors and tiles, for Lua. */
#ifndef LUA_KERNEL_VIEW_H
#define LUA_KERNEL_VIEW_H

#include "../base/base.h"

/* Adds to the table on the top: whole, is_view, put_operand, same_as; and Register and Affine, the
 * metatables of numbers that a register gives, to which view.lua gives arithmetic. */
void lk_add_views(lua_State *L);

#endif
