"""The guard between FLARE's network and a party: only the doors listed here are open.

NVIDIA FLARE relays messages between all parties and answers whatever topic it knows, from whoever
asks. Our processes are FLARE's, started by an entry point of ours (`process.py`) that puts a guard
(`cell.py`) before everything that arrives, and before any of it is decoded. `doors.py` is the whole
list of what a party answers, to whom; `commands.py` what the server may have a site do, and what an
administrator may have the server do.
"""
