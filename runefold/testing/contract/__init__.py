"""The contract every runelog keeps, as tests: hold another backend to it by deriving a class.

    class TestMyLog(LogContract):
        def make_log(self, *, clock=time.time_ns):
            return MyLog(CODEC, clock=clock)

Each test states one rule of `runelog.log.Log`. A log whose runes outlive its handle derives from
`DurableLogContract` and says how it is opened again.
"""

import pytest

_PARTS = (
    "appending",
    "archiving",
    "base",
    "erasing",
    "following",
    "indexing",
    "keeping",
    "moving",
    "racing",
    "reading",
    "refusing",
    "reopening",
)
# Before they are imported, or a failing assert would not show what it compared.
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from runefold.testing.contract.appending import Appending  # noqa: E402 -- see above
from runefold.testing.contract.archiving import Archiving  # noqa: E402 -- as above
from runefold.testing.contract.base import CODEC, KINDS, merged, picture  # noqa: E402 -- as above
from runefold.testing.contract.erasing import Erasing  # noqa: E402 -- as above
from runefold.testing.contract.following import Following, FollowingThreads  # noqa: E402 -- as above
from runefold.testing.contract.indexing import Indexing  # noqa: E402 -- as above
from runefold.testing.contract.keeping import Closing, Rolling  # noqa: E402 -- as above
from runefold.testing.contract.moving import Moving  # noqa: E402 -- as above
from runefold.testing.contract.racing import Racing  # noqa: E402 -- as above
from runefold.testing.contract.reading import Reading, Streams  # noqa: E402 -- as above
from runefold.testing.contract.refusing import Refusing  # noqa: E402 -- as above
from runefold.testing.contract.reopening import Reopening  # noqa: E402 -- as above

__all__ = ["CODEC", "KINDS", "DurableLogContract", "LogContract", "merged", "picture"]


class LogContract(
    Appending,
    Refusing,
    Reading,
    Streams,
    Indexing,
    Following,
    FollowingThreads,
    Rolling,
    Archiving,
    Erasing,
    Moving,
    Closing,
    Racing,
):
    """What every log does. A subclass says in `make_log` how to make a new and empty one."""


class DurableLogContract(LogContract, Reopening):
    """What every log does that outlives its handle; `reopen` says how it is opened again."""
