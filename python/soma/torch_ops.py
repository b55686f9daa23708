"""What torch's device privateuseone does in Soma's HBM: copies, and operations that are kernels."""
import torch

from . import arithmetic, dtypes
from .layout import Lies
from .torch import KIND, count, host_bytes, is_here, lies, memory

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
_library = torch.library.Library("aten", "IMPL")


def register():
    for name, function in _OPERATIONS.items():
        _library.impl(name, function, "PrivateUse1")


# ---- Copies ----

def _words(t):
    """How a tensor's bits lie, as unsigned integers."""
    size = t.element_size()
    # 8 bytes are two words: the machine's widest type has 4.
    word = min(size, 4)
    bits = dtypes.TYPES["uint%d" % (8 * word)]
    n = size // word
    shape, steps = tuple(t.shape), tuple(s * n for s in t.stride())
    if n > 1:
        shape, steps = shape + (n,), steps + (1,)
    return Lies(memory(t), shape, steps, t.storage_offset() * n, bits)


def _dense(t):
    """The same on the device with its elements in order."""
    if t.is_contiguous():
        return t
    out = torch.empty(t.shape, dtype=t.dtype, device=t.device)
    if t.numel():
        arithmetic.copy(_words(t), _words(out))
    return out


def _bytes(t):
    """A DeviceArray of the bytes of a dense tensor."""
    return memory(t)._view(t.storage_offset() * t.element_size(), (t.numel() * t.element_size(),),
                           dtypes.TYPES["uint8"])


def _to_host(t):
    """A dense tensor on the CPU."""
    if not t.numel():
        return torch.empty(t.shape, dtype=t.dtype)
    raw = torch.from_numpy(_bytes(_dense(t)).numpy())
    return raw.view(t.dtype).view(t.shape)


def _from_host(source, t):
    """Writes a tensor of the CPU, of the same type and shape."""
    # A tensor that is not dense is written by a copy on the device.
    if t.is_contiguous():
        _bytes(t)._write(host_bytes(source))
        return
    whole = torch.empty(t.shape, dtype=t.dtype, device=t.device)
    _bytes(whole)._write(host_bytes(source))
    arithmetic.copy(_words(whole), _words(t))


def _copy_from(source, target, non_blocking=False):
    # What broadcasts is repeated before it is copied.
    source = source.detach().expand(target.shape)
    target_here = is_here(target)
    if not target.numel():
        return target
    if not is_here(source):
        _from_host(source.to(target.dtype), target)
    # To the CPU: torch's own copy does the conversion.
    elif not target_here:
        target.copy_(_to_host(source))
    # Between two devices by way of the host.
    elif source.device != target.device:
        _from_host(_to_host(source).to(target.dtype), target)
    elif source.dtype == target.dtype:
        arithmetic.copy(_words(source), _words(target))
    # Engines convert floats as they copy.
    elif source.dtype in FLOATS and target.dtype in FLOATS:
        arithmetic.copy(lies(source), lies(target))
    else:
        count("copy between types")
        _from_host(_to_host(source).to(target.dtype), target)
    return target


def _copy_from_and_resize(source, target):
    if target.shape != source.shape:
        target.resize_(source.shape)
    return _copy_from(source, target)


def _item(t):
    return _to_host(t).item()


def _fill(t, value):
    if not t.numel():
        return t
    # One element, which the device repeats.
    one = host_bytes(torch.full((1,), value, dtype=t.dtype))
    if t.is_contiguous():
        _bytes(t)._fill(one)
        return t
    # A view with gaps: one element, expanded with steps of 0.
    whole = torch.empty((1,), dtype=t.dtype, device=t.device)
    _bytes(whole)._write(one)
    arithmetic.copy(_words(whole.expand(t.shape)), _words(t))
    return t


# ---- Elementwise ----

def _operand(x):
    """A tensor on the device, or a number; a tensor without dimensions on the CPU is one."""
    if isinstance(x, torch.Tensor) and not is_here(x):
        if x.dim():
            raise RuntimeError("operands are on %s and %s: move one of them" % (x.device, KIND))
        return x.item()
    return x


def _fits(operands):
    """Whether the machine calculates with these: floats, and numbers."""
    return all(x.dtype in FLOATS and x.numel() for x in operands if isinstance(x, torch.Tensor)) \
        and not any(isinstance(x, complex) for x in operands)


def _on_cpu(operation, *operands, **more):
    """The operation on the CPU; its result is put on the device."""
    count(str(operation).replace("aten.", "aten::"))
    # At least one is on the device, else torch would not have asked.
    here = next(x.device for x in operands if is_here(x))
    return operation(*(_to_host(x) if is_here(x) else x for x in operands), **more).to(here)


def _elementwise(name, operands, dtype=None, out=None):
    operands = [_operand(x) for x in operands]
    tensors = [x for x in operands if isinstance(x, torch.Tensor)]
    if not _fits(operands):
        return None
    shape = torch.broadcast_shapes(*(x.shape for x in tensors))
    if out is None:
        if dtype is None:
            dtype = tensors[0].dtype
            for x in tensors[1:]:
                # As torch decides, for which tensors without memory are enough.
                dtype = torch.result_type(torch.empty(x.shape, dtype=dtype, device="meta"),
                                          torch.empty(x.shape, dtype=x.dtype, device="meta"))
        out = torch.empty(shape, dtype=dtype, device=tensors[0].device)
    if out.numel():
        arithmetic.elementwise(name, [lies(x.detach()) if isinstance(x, torch.Tensor) else x
                                      for x in operands], lies(out))
    return out


def _scaled(other, alpha):
    """other * alpha of add() and sub()."""
    if alpha == 1:
        return other
    other = _operand(other)
    return other * alpha


def _binary(operation, name, dtype=None):
    def function(x, other, **more):
        by = _scaled(other, more["alpha"]) if "alpha" in more else other
        # Other arguments, such as rounding_mode, are the CPU's.
        found = None if more.keys() - {"alpha"} else _elementwise(name, (x, by), dtype)
        return _on_cpu(operation, x, other, **more) if found is None else found
    return function


def _in_place(operation, name):
    def function(x, other, **more):
        by = _scaled(other, more["alpha"]) if "alpha" in more else other
        fits = _fits([x, _operand(by)]) and not more.keys() - {"alpha"}
        # The result must have x's shape.
        if fits and torch.broadcast_shapes(x.shape, getattr(by, "shape", ())) == x.shape:
            return _elementwise(name, (x, by), out=x)
        return x.copy_(_on_cpu(operation, x, other, **more))
    return function


def _unary(operation, name):
    def function(x, **more):
        found = None if more else _elementwise(name, (x,))
        return _on_cpu(operation, x, **more) if found is None else found
    return function


def _gelu(x, *, approximate="none"):
    name = {"none": "gelu", "tanh": "gelu_apprx_tanh"}[approximate]
    found = _elementwise(name, (x,))
    return _on_cpu(torch.ops.aten.gelu.default, x, approximate=approximate) \
        if found is None else found


def _where(condition, x, y):
    if condition.dtype != torch.bool or x.dtype != y.dtype or x.dtype not in FLOATS or \
            not all(map(is_here, (condition, x, y))):
        return _on_cpu(torch.ops.aten.where.self, condition, x, y)
    shape = torch.broadcast_shapes(condition.shape, x.shape, y.shape)
    out = torch.empty(shape, dtype=x.dtype, device=x.device)
    if out.numel():
        arithmetic.elementwise("where", [lies(condition, dtypes.TYPES["uint8"]), lies(x), lies(y)],
                               lies(out))
    return out


# ---- Sums and products ----

def _reduce(operation, name):
    def function(x, dim=None, keepdim=False, **more):
        if more.get("dtype") not in (None, x.dtype) or not _fits([x]):
            return _on_cpu(operation, x, dim, keepdim, **more)
        # From the last axis on, so that the numbers of the others stay.
        axes = sorted({d % max(x.dim(), 1) for d in (dim or range(x.dim()))}, reverse=True)
        found = lies(x.detach())
        for axis in axes:
            shape = found.shape[:axis] + found.shape[axis + 1:]
            # Sums between axes are float32.
            out = torch.empty(shape, device=x.device)
            arithmetic.reduce(name, found, axis, lies(out))
            found = lies(out)
        out = out if axes else x.clone()
        kept = [1 if d in axes else n for d, n in enumerate(x.shape)]
        return (out.view(kept) if keepdim else out).to(x.dtype)
    return function


def _sum_all(x, **more):
    return _reduce(torch.ops.aten.sum.dim_IntList, "sum")(x, None, False, **more)


def _multiplies(*tensors):
    return all(is_here(t) and t.dtype == tensors[0].dtype for t in tensors) and _fits(tensors)


def _mm(x, y):
    if not _multiplies(x, y):
        return _on_cpu(torch.ops.aten.mm.default, x, y)
    out = torch.empty((x.shape[0], y.shape[1]), dtype=x.dtype, device=x.device)
    arithmetic.matmul(lies(x.detach()), lies(y.detach()), lies(out))
    return out


def _bmm(x, y):
    if not _multiplies(x, y):
        return _on_cpu(torch.ops.aten.bmm.default, x, y)
    out = torch.empty((x.shape[0], x.shape[1], y.shape[2]), dtype=x.dtype, device=x.device)
    # A kernel for each matrix of the batch.
    for a, b, c in zip(x.detach(), y.detach(), out):
        arithmetic.matmul(lies(a), lies(b), lies(c))
    return out


def _addmm(bias, x, y, *, beta=1, alpha=1):
    if not _multiplies(x, y) or beta != 1 or alpha != 1:
        return _on_cpu(torch.ops.aten.addmm.default, bias, x, y, beta=beta, alpha=alpha)
    return _mm(x, y).add_(bias)


# ---- Indices, which torch's fallback does not move to the CPU ----

def _places(indices):
    return [i if i is None else i.cpu() for i in indices]


def _index(x, indices):
    count("aten::index.Tensor")
    here = next(t for t in [x, *indices] if is_here(t)).device
    return torch.ops.aten.index.Tensor(x.cpu(), _places(indices)).to(here)


def _index_put(x, indices, values, accumulate=False, unsafe=False):
    count("aten::index_put_")
    return x.copy_(torch.ops.aten.index_put_.default(x.cpu(), _places(indices), values.cpu(),
                                                     accumulate))


# ---- Convolutions, which torch leaves to each device ----

def _convolution(x, *others):
    count("aten::convolution")
    return torch.ops.aten.convolution(*(_host(v) for v in (x, *others))).to(x.device)


def _convolution_backward(grad, x, weight, *others):
    count("aten::convolution_backward")
    # Transposed weights have the groups the other way around.
    sizes = [weight.shape[1 if others[3] else 0] * (others[5] if others[3] else 1)]
    found = torch.ops.aten.convolution_backward(*map(_host, (grad, x, weight)), sizes, *others)
    return tuple(f if f is None else f.to(x.device) for f in found)


def _host(x):
    return x.cpu() if isinstance(x, torch.Tensor) else x


# ---- The table ----

_aten = torch.ops.aten
_OPERATIONS = {"_copy_from": _copy_from, "_copy_from_and_resize": _copy_from_and_resize,
               "_local_scalar_dense": _item, "index.Tensor": _index,
               "_index_put_impl_": _index_put, "convolution_overrideable": _convolution,
               "convolution_backward_overrideable": _convolution_backward, "fill_.Scalar": _fill,
               "zero_": lambda t: _fill(t, 0), "gelu": _gelu, "where.self": _where, "mm": _mm,
               "bmm": _bmm, "addmm": _addmm, "sum": _sum_all,
               "sum.dim_IntList": _reduce(_aten.sum.dim_IntList, "sum"),
               "mean.dim": _reduce(_aten.mean.dim, "mean"),
               "amax": _reduce(_aten.amax.default, "max"),
               "amin": _reduce(_aten.amin.default, "min")}
for _torch, _ours in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"),
                      ("div", "divide")):
    _operation = getattr(_aten, _torch).Tensor
    _OPERATIONS[_torch + ".Tensor"] = _binary(_operation, _ours)
    _OPERATIONS[_torch + "_.Tensor"] = _in_place(_operation, _ours)
for _torch, _ours in (("maximum", "maximum"), ("minimum", "minimum")):
    _OPERATIONS[_torch] = _binary(getattr(_aten, _torch).default, _ours)
for _torch, _ours in (("eq", "equal"), ("ne", "not_equal"), ("lt", "less"), ("le", "less_equal"),
                      ("gt", "greater"), ("ge", "greater_equal")):
    for _form in ("Tensor", "Scalar"):
        _OPERATIONS["%s.%s" % (_torch, _form)] = _binary(getattr(getattr(_aten, _torch), _form),
                                                         _ours, torch.bool)
_OPERATIONS["pow.Tensor_Scalar"] = _binary(_aten.pow.Tensor_Scalar, "power")
for _torch, _ours in (("neg", "negative"), ("abs", "abs"), ("exp", "exp"), ("log", "log"),
                      ("tanh", "tanh"), ("sigmoid", "sigmoid"), ("erf", "erf"), ("sqrt", "sqrt"),
                      ("rsqrt", "rsqrt"), ("reciprocal", "reciprocal"), ("relu", "relu"),
                      ("silu", "silu"), ("sign", "sign"), ("sin", "sin"), ("cos", "cos")):
    _OPERATIONS[_torch] = _unary(getattr(_aten, _torch).default, _ours)
