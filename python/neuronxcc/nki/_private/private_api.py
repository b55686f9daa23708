"""Of the ring of collective_permute_implicit."""
from nki.collectives import collective_permute_implicit_current_processing_rank_id as _rank


def cc_div(numerator, num_channels, replica_groups):
    """A register with the rank whose data round numerator // num_channels of a ring has, on channel
    numerator % num_channels."""
    return _rank(numerator // num_channels, replica_groups, numerator % num_channels)
