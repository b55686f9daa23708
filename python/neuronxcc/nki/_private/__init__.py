"""Names that published kernels take from the toolchain's own modules."""
