"""scipy.linalg.circulant on NumPy."""
import numpy as np


def circulant(column):
    """The matrix whose column j is `column` rotated down by j."""
    column = np.asarray(column)
    n = np.arange(len(column))
    return column[(n[:, None] - n) % len(column)]
