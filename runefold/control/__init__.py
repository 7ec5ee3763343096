"""Commands from other processes: through the socket of the runtime that has a log open, or offline.

`client` asks, `server` listens, `wire` is what goes between them, `requests` is what the runtime
does when it is asked, and `offline` writes commands into a log that no runtime has open.
"""
