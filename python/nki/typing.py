"""nki.typing: annotations of tensors, `nt.tensor[128, 512]`; they are not checked."""


class _Annotation:
    def __init__(self, shape=None):
        self.shape = shape

    def __getitem__(self, shape):
        return _Annotation(shape)

    def __repr__(self):
        return "tensor" if self.shape is None else "tensor[%s]" % (self.shape,)

    def __call__(self, *args, **kwargs):
        return self

    def __or__(self, other):
        return self

    __ror__ = __or__


tensor = _Annotation()
mutable_tensor = _Annotation()
mutable = _Annotation()  # of tensor[mutable], which the kernel writes: as every tensor may be
scalar = _Annotation()
