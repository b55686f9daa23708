"""The processes of an MPI job that run one script: a sweep's variants go to those that are free.

It needs mpi4py, and a script that reaches the same sweeps with the same variants in each process.
"""
import os

from .errors import SomaError

_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS")
_state = {}


def _comm():
    """The job's communicator; None if there is no job of several processes."""
    if "comm" not in _state:
        _state["comm"] = None
        if any(int(os.environ.get(name, 1)) > 1 for name in _SIZES):
            try:
                from mpi4py import MPI
            except ImportError:
                raise SomaError("a sweep over MPI needs mpi4py (Debian: python3-mpi4py)") from None
            _state["comm"] = MPI.COMM_WORLD if MPI.COMM_WORLD.Get_size() > 1 else None
    return _state["comm"]


def rank():
    """This process's number in the job, 0 without one."""
    comm = _comm()
    return comm.Get_rank() if comm else 0


def share(work, todo, done, found):
    """work(items, done) on all items (number, variant): here, or by all processes of the job. Gives
    what was found by number, the same in each process; process 0 hands the items out, and its
    `todo`, `done` and `found` count."""
    comm = _comm()
    if comm is None:
        work(todo, done)
        return found
    if comm.Get_rank() == 0:
        _hand_out(comm, todo, done)
    else:
        work(_asked(comm), lambda number, one: comm.send((number, one), 0, 1))
        comm.send(None, 0, 1)
    return comm.bcast(found if comm.Get_rank() == 0 else None, 0)


def _asked(comm):
    """Items that process 0 hands out, one by one."""
    while True:
        comm.send("more", 0, 1)
        item = comm.recv(source=0, tag=2)
        if item is None:
            return
        yield item


def _hand_out(comm, todo, done):
    from mpi4py import MPI
    items, left, status = iter(todo), comm.Get_size() - 1, MPI.Status()
    while left:
        message = comm.recv(source=MPI.ANY_SOURCE, tag=1, status=status)
        if message is None:
            left -= 1
        elif message == "more":
            comm.send(next(items, None), status.Get_source(), 2)
        else:
            done(*message)
