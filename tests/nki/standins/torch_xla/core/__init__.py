"""Nothing of torch_xla is needed where kernels run on NumPy arrays."""
