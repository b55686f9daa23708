"""Arrays of tiles: an array whose partition dimension is not the first (`par_dim`) is one buffer
for each index of the dimensions before it, so that each lives as long as it is used."""
from .checked import whole
from .errors import NotBuilt
from .index import Index
from .native import _soma
from .views import listed


class ParDim(int):
    """The size of a partition dimension: nl.par_dim(128)."""

    __slots__ = ()


class Blocks(_soma.Blocks):
    """Tiles by leading indices. x[i, j] is a tile, x[i] a smaller array of tiles; the rest of an
    index is applied to the tile. Keys that begin with the numbers of a tile are for the module in
    C."""

    def __init__(self, lead, shape, dtype, buffer, tiles, name=""):
        self.lead, self.inner, self.dtype, self.buffer = tuple(lead), tuple(shape), dtype, buffer
        self.tiles, self.leads, self.name = tiles, len(self.lead), name

    shape = property(lambda self: self.lead + self.inner)
    ndim = property(lambda self: len(self.shape))

    def __repr__(self):
        return "<%s%s, an array of %d tiles>" % (self.dtype, list(self.shape), len(self.tiles))

    def __len__(self):
        return self.lead[0]

    def all(self):
        return list(self.tiles.values())

    def as_tensor(self):
        """The only tile, if all leading sizes are 1."""
        if len(self.tiles) == 1:
            return self.all()[0]
        raise NotBuilt("%r as one operand: give the index of a tile" % self)

    def _split(self, key):
        """(tile or smaller array, rest of the key)."""
        key = key if isinstance(key, tuple) else (key,)
        n = len(self.lead)
        if key and key[0] is Ellipsis:
            key = (slice(None),) * (self.ndim - len(key) + 1) + key[1:]
        head = key[:n]
        if all(isinstance(k, slice) and k == slice(None) for k in head):
            if key[n:] and len(self.tiles) > 1:
                raise NotBuilt("%r indexed by slices: give the index of a tile" % self)
            return (self if len(self.tiles) > 1 else self.all()[0]), key[n:]
        fixed = []
        for d, k in enumerate(head):
            number = k.const if isinstance(k, Index) and not any(k.coef) else whole(k)
            if number is None and isinstance(k, slice) and self.lead[d] == 1:
                number = 0
            if number is None:
                raise NotBuilt("%r indexed by %r: the dimensions before the partitions take whole "
                               "numbers" % (self, k))
            number += self.lead[d] if number < 0 else 0
            if not 0 <= number < self.lead[d]:
                raise IndexError("index %d of dimension %d, which has %d tiles"
                                 % (number, d, self.lead[d]))
            fixed.append(number)
        if len(fixed) == n:
            return self.tiles[tuple(fixed)], key[n:]
        m = len(fixed)
        return Blocks(self.lead[m:], self.inner, self.dtype, self.buffer,
                      {i[m:]: t for i, t in self.tiles.items() if i[:m] == tuple(fixed)},
                      self.name), ()

    def _item(self, key):
        part, rest = self._split(key)
        return part[rest] if rest and not isinstance(part, Blocks) else part

    def _set_item(self, key, value):
        part, rest = self._split(key)
        if isinstance(part, Blocks):
            if isinstance(value, Blocks) and value.tiles is part.tiles:
                return
            for index, tile in part.tiles.items():
                tile[...] = value[index] if isinstance(value, Blocks) else value
            return
        part[rest or Ellipsis] = value

    def reshape(self, *sizes, shape=None):
        """Only to its own shape, or without leading sizes of 1."""
        new = listed(sizes if shape is None else (shape,))
        return self if tuple(new) == self.shape else self.as_tensor().reshape(new)
