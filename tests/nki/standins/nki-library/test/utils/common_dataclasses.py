"""Records of arguments, and generators that are functions of the rank."""


class _Record:
    def __init__(self, *args, **fields):
        self.args = args
        vars(self).update(fields)


class CompilerArgs(_Record):
    logical_nc_config = 1


class InferenceArgs(_Record):
    pass


class KernelArgs(_Record):
    pass


class ValidationArgs(_Record):
    relative_accuracy = absolute_accuracy = 1e-3


class LazyGoldenGenerator(_Record):
    by_rank = False

    def of_rank(self, rank):
        return self.output_ndarray


class PerRankLazyGoldenGenerator(_Record):
    by_rank = True

    def of_rank(self, rank):
        return self.args[0](rank)


class PerRankLazyInputGenerator(PerRankLazyGoldenGenerator):
    pass
