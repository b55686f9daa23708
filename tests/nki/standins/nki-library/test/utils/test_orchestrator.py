class Orchestrator:
    """What a test is given; `execute` is the caller's."""
