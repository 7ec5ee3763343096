"""How fast and how small the runelog is, beside its peers, measured in the same run.

`python -m bench` measures everything at full size, `python -m bench --quick` in under a minute.
"""
