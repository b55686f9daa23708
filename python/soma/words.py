"""Messages of the builder in the words of NKI: it says `ldweights src`, a kernel `stationary`."""
import re

# What kernels call an instruction of the machine, and its operands, where the names differ.
_CALLS = {
    "tensor_tensor": ("tensor_tensor", {"src0": "data1", "src1": "data2"}),
    "tensor_scalar": ("tensor_scalar", {"src": "data", "imm0": "operand0", "imm1": "operand1"}),
    "scalar_tensor_tensor": ("scalar_tensor_tensor", {"src": "data", "imm0": "operand0",
                                                      "src1": "operand1"}),
    "tensor_scalar_reduce": ("tensor_scalar_reduce", {"src": "data", "imm0": "operand0"}),
    "tensor_tensor_scan": ("tensor_tensor_scan", {"src0": "data0", "src1": "data1",
                                                  "init": "initial"}),
    "tensor_reduce": ("tensor_reduce", {"src": "data"}),
    "partition_reduce": ("tensor_partition_reduce", {"src": "data"}),
    "reciprocal": ("reciprocal", {"src": "data"}),
    "bn_stats": ("bn_stats", {"src": "data"}),
    "bn_aggr": ("bn_aggr", {"src": "data"}),
    "find_index8": ("nc_find_index8", {"src": "data"}),
    "match_replace8": ("nc_match_replace8", {"src": "data"}),
    "n_gather": ("nc_n_gather", {"src": "data", "index": "indices"}),
    "local_gather": ("local_gather", {"src": "src_buffer", "elems_per_index": "num_elem_per_idx",
                                      "valid_indices": "num_valid_indices"}),
    "select_reduce": ("select_reduce", {"pred": "predicate"}),
    "range_select": ("range_select", {"on_true": "on_true_tile", "on_false": "on_false_value"}),
    "iota": ("iota", {"multiplier": "channel_multiplier"}),
    "affine_select": ("affine_select", {"src": "on_true_tile", "fill": "on_false_value",
                                        "multiplier": "channel_multiplier"}),
    "dropout": ("dropout", {"src": "data"}),
    "sequence_bounds": ("sequence_bounds", {"src": "segment_ids"}),
    "shuffle": ("nc_stream_shuffle", {}),
    "exponential": ("exponential", {"max": "max_value", "init": "reduce_init"}),
    "quantize_mx": ("quantize_mx", {"scale": "dst_scale"}),
    "copy_predicated": ("tensor_copy_predicated", {"pred": "predicate"}),
    "activate": ("activation", {"src": "data"}),
    "activate2": ("activate2", {"src": "data"}),
    "ldweights": ("nc_matmul", {"src": "stationary"}),
    "matmul": ("nc_matmul", {"src": "moving"}),
    "ldweights_mx": ("nc_matmul_mx", {"src": "stationary", "scale": "stationary_scale"}),
    "matmul_mx": ("nc_matmul_mx", {"src": "moving", "scale": "moving_scale"}),
    "transpose32": ("nc_transpose", {"src": "data"}),
}
_BEGIN = re.compile(r"(core \d: |[^\n]*?:\d+: )?(\w+)(?= \w+: )")
# Not in a path, such as src/kernel.py, and not the user's name of a tile.
_WORD = r"(?<![\w/.-])(?<!\btile )(?<!\btensor )(?:%s)(?![\w/-]|\.\w)"

# Functions of nki.language for operators that an instruction does not take.
_INSTEAD = {"abs": "nl.abs(x)", "abs_max": "nl.maximum(nl.abs(x), nl.abs(y))",
            "abs_min": "nl.minimum(nl.abs(x), nl.abs(y))", "square": "nl.square(x)",
            "relu": "nl.relu(x)", "rsqrt": "nl.rsqrt(x)", "reciprocal": "nl.reciprocal(x)",
            "bitwise_not": "nl.invert(x)", "pow": "nl.power(x, y)"}
_REFUSED = re.compile(r": (?:the operator (\w+) needs gen\d: \w+ is gen\d|"
                      r"(\w+) takes one operand: .*|no engine has the operator (\w+) as .*)$")


def _with_function(text):
    """The message, if it refuses an operator, with the function that computes it."""
    refused = _REFUSED.search(text)
    function = refused and _INSTEAD.get(refused[1] or refused[2] or refused[3])
    return "%s; %s computes it" % (text, function) if function else text


def operands_of(name):
    """What a kernel calls the operands of an instruction, where it has another name for them."""
    return _CALLS.get(name, (name, {}))[1]


def of_instruction(name):
    """What a kernel calls an instruction."""
    return _CALLS.get(name, (name,))[0]


def of_nki(text):
    """The message, if it begins with an instruction and an operand, as a kernel calls them. The
    core or the place may come before it."""
    begin = _BEGIN.match(text)
    call, operands = _CALLS.get(begin[2], (None, {})) if begin else (None, {})
    if not call:
        return text
    text = _with_function(text)
    said = re.sub(_WORD % begin[2], call, text[begin.start(2):])
    if operands:
        said = re.sub(_WORD % "|".join(operands), lambda m: operands[m[0]], said)
    return text[:begin.start(2)] + said
