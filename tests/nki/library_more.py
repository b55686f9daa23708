"""The larger kernels of nki-library: projections, attention, routers."""
import importlib

import numpy as np

import harness
from refs import bf16, data, softmax

KERNELS = ()
