"""The parts of scipy that public kernels import."""
