"""Rules about kinds of entities: one suite over the catalogue, and over machines of apps."""

import sys
from pathlib import Path

# An example's machine is one of them: found here without pytest's own path too.
_DESK = str(Path(__file__).parents[2] / "examples" / "order_desk")
if _DESK not in sys.path:
    sys.path.append(_DESK)
