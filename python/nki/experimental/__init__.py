"""nki.experimental: loops at run time under their earlier names."""
from ..language import fori_loop, while_loop

__all__ = ["fori_loop", "while_loop"]
