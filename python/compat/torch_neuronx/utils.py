"""torch_neuronx.utils: the target."""


def get_platform_target():
    from nki._target import target_of
    return target_of(None)
