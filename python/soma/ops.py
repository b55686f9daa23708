"""Operators and activation functions: from what a kernel names (functions of nl, NumPy's ufuncs,
strings) to the machine's codes."""
import inspect
import sys

from . import insn
from .errors import KernelError

_ALU = {
    "add": "add", "sum": "add", "subtract": "subtract", "multiply": "mult", "mult": "mult",
    "prod": "mult", "divide": "divide", "true_divide": "divide", "maximum": "max", "max": "max",
    "amax": "max", "minimum": "min", "min": "min", "amin": "min", "average": "average",
    "power": "pow", "pow": "pow", "mod": "mod", "remainder": "mod", "equal": "is_equal",
    "not_equal": "not_equal", "greater_equal": "is_ge", "greater": "is_gt", "less_equal": "is_le",
    "less": "is_lt", "logical_and": "logical_and", "all": "logical_and",
    "logical_or": "logical_or", "any": "logical_or", "logical_xor": "logical_xor",
    "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor",
    "invert": "bitwise_not", "bitwise_not": "bitwise_not", "left_shift": "logical_shift_left",
    "logical_left_shift": "logical_shift_left", "right_shift": "logical_shift_right",
    "logical_right_shift": "logical_shift_right", "arithmetic_right_shift": "arith_shift_right",
    "rsqrt": "rsqrt", "reciprocal": "reciprocal", "square": "square", "relu": "relu", "abs": "abs",
    "absolute": "abs", "abs_max": "abs_max", "abs_min": "abs_min", "bypass": "bypass"}
_ACT = {name: name for name in insn.ACT}
_ACT.update({"absolute": "abs", "identity": "copy", "gelu_tanh": "gelu_apprx_tanh"})
UNARY = {insn.ALU.get(n) for n in
         ("bypass", "abs", "bitwise_not", "rsqrt", "reciprocal", "square", "relu")}
BITS = {insn.ALU.get(n) for n in
        ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "logical_shift_left",
         "logical_shift_right", "arith_shift_left", "arith_shift_right")}
_alu = {}
functions = {}  # codes of activation functions that have been asked for
usual = {}  # of these operators, those that take a float32 and a number, on whatever engine
_SPECIAL = UNARY | BITS | {insn.ALU.get("pow")}


def name_of(op):
    """The name of a function of nl, a ufunc, an operator or a string; "" for anything else."""
    name = op if isinstance(op, str) else getattr(op, "__name__", "")
    return name.rsplit(".", 1)[-1]


_ELEMENTWISE = "nki.language._math", "nki.language._remainder"


def _function(name):
    """": nl.exp(x) computes it" for the name of a function of nki.language, else ""."""
    function = getattr(sys.modules.get("nki.language"), name or "", None)
    if not inspect.isfunction(inspect.unwrap(function)) or function.__module__ not in _ELEMENTWISE:
        return ""
    takes = [n for n, p in inspect.signature(function).parameters.items()
             if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    return ": nl.%s(%s) computes it" % (name, ", ".join(takes))


def alu(op, what="op"):
    """The code of an ALU operator."""
    try:
        return _alu[op]
    except (KeyError, TypeError):
        pass
    name = _ALU.get(name_of(op))
    if op is None:
        raise KernelError("%s is missing: give an operator such as nl.add" % what)
    if name is None or name not in insn.ALU:
        raise KernelError("%s=%s is not an operator of the machine's engines%s; there are %s"
                          % (what, name_of(op) or insn.said(op), _function(name_of(op)),
                             ", ".join(sorted(set(_ALU)))))
    code = _alu[op] = insn.ALU[name]
    if code not in _SPECIAL:
        usual[op] = code
    return code


def optional(op, what="op"):
    """The same for an operator that may be left out: 0 for None."""
    return 0 if op is None else alu(op, what)


def act(op):
    """The code of an activation function."""
    try:
        return functions[op]
    except (KeyError, TypeError):
        pass
    name = _ACT.get(name_of(op))
    if op is None:
        raise KernelError("op is missing: give a function such as nl.exp")
    if name is None:
        raise KernelError("op=%s is not an activation function; there are %s"
                          % (name_of(op) or insn.said(op), ", ".join(sorted(_ACT))))
    code = functions[op] = insn.ACT[name]
    return code


def is_op(x):
    """Whether x names an operator or a function."""
    return x is not None and (name_of(x) in _ALU or name_of(x) in _ACT)
