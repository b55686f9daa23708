"""Clients of triton_viz."""


class Tracer:
    pass
