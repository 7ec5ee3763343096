"""How fast and how small the runelog and the runtime are, beside their peers in the same run.

`python -m bench` measures everything at full size, `python -m bench --quick` in under a minute.
"""
