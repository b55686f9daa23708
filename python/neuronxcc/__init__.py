"""The older name of NKI's package: `neuronxcc.nki` is `nki`. On import it adds logging.OFF, as the
vendor's does."""
import logging as _logging

if not hasattr(_logging, "OFF"):
    _logging.OFF = _logging.CRITICAL + 10
