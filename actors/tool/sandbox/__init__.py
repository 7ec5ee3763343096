"""Programs under control: what they are started with, what they may use, how they end.

`argv` fills in a command line, `isolation` says what the program sees of the machine, `watchdog`
runs it in a process of its own and ends all of it, `child_process` is our end of that, and
`streams` takes in what it says.
"""
