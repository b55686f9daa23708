"""The variable to which a statement assigns, which names what it makes."""
import ast
import itertools
import re

_ASSIGNS = re.compile(r"\s*(?:self\.)?([A-Za-z_]\w*)\s*(?:\[[^]]*\]|:[^=]*)?=[^=]")


def of_line(text):
    """[(column in bytes, name or "")] of the statements of a line of source."""
    body, line = [], text.encode()
    if ";" in text:
        try:
            body = ast.parse(text.strip()).body
        except SyntaxError:  # a part of a statement
            pass
    while len(body) == 1 and getattr(body[0], "body", None):  # `for ...: a = 1; b = 2`
        body = body[0].body
    indent = len(line) - len(line.lstrip())
    starts = [indent + n.col_offset for n in body] if len(body) > 1 else [0]
    found = [(at, _ASSIGNS.match(line[at:].decode())) for at in starts]
    return [(at, m[1] if m else "") for at, m in found]


def running(statements, frame):
    """The name of that statement of a line at which a frame is; "" before Python 3.11, which tells
    no columns."""
    if not hasattr(frame.f_code, "co_positions"):
        return ""
    at = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))[2]
    found = [name for start, name in statements if at is not None and start <= at]
    return found[-1] if found else ""
