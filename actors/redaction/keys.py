r"""Keys that are known by their looks: always looked for, in every runtime.

Each has a beginning that its issuer chose so that scanners recognise it, and is of random
characters from there on. A key without such a beginning (32 hex digits, say) looks like any digest:
an app that uses one registers a pattern for it.
"""

from __future__ import annotations

from typing import Final

_HYPHENS: Final = "-----"
_BEGIN: Final = rf"{_HYPHENS}BEGIN[ +][A-Z0-9 +]{{0,30}}PRIVATE[ +]KEY(?:[ +]BLOCK)?{_HYPHENS}"
_END: Final = rf"{_HYPHENS}END[ +][A-Z0-9 +]{{0,30}}PRIVATE[ +]KEY(?:[ +]BLOCK)?{_HYPHENS}"
_BETWEEN: Final = r"""[\s\\"'+,#>|*]"""
"""What may stand between the lines of a key that is quoted, indented, or part of a program."""
_HEADERS: Final = rf"(?:{_BETWEEN}*[A-Z][A-Za-z-]+:[^\n]+\n)*"

PRIVATE_KEYS: Final = (
    # Whole ones, whatever is in them; and those of which the end is missing.
    rf"{_BEGIN}(?:-{{0,4}}[^-])+{_END}",
    rf"{_BEGIN}{_HEADERS}{_BETWEEN}*[A-Za-z0-9+/=]{{24}}(?:[A-Za-z0-9/=]|{_BETWEEN})*",
)
MODEL_KEYS: Final = (
    r"\bsk-(?:ant|proj|svcacct|admin|or)-[A-Za-z0-9_-]{20,}",
    r"\bsk-[A-Za-z0-9]{20,}",
    r"\bAIza[A-Za-z0-9_-]{35}",
    r"\b(?:gsk|hf|r8)_[A-Za-z0-9]{20,}",
    r"\b(?:xai|pplx)-[A-Za-z0-9]{20,}",
)
SERVICE_KEYS: Final = (
    r"\b(?:AKIA|ASIA|ABIA)[A-Z0-9]{16}",
    r"gh[oprsu]_[A-Za-z0-9]{20,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"\bgl(?:pat|dt|ft|rt|soat|ptt|agent|imt|cbt|oas)-[A-Za-z0-9_-]{20,}",
    r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"\bxapp-\d-[A-Za-z0-9-]{20,}",
    r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",
    r"\bwhsec_[A-Za-z0-9]{8}[A-Za-z0-9+/=]{16,}",
    r"\bnpm_[A-Za-z0-9]{36}",
    r"\bpypi-AgE[A-Za-z0-9_-]{50,}",
    r"\bdo[opr]_v1_[a-f0-9]{64}",
    r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    r"\bGOCSPX-[A-Za-z0-9_-]{28}",
    r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
)
PROVIDER_KEYS: Final = (*MODEL_KEYS, *SERVICE_KEYS, *PRIVATE_KEYS)
