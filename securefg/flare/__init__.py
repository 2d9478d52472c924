"""The distributed engine: hosts at sites of different owners, over NVIDIA FLARE and mutual TLS.

Who drives: the runner runs inside the job's Controller, at the FLARE server, because in a real
federation nobody else may: the one who submits a job has no standing connection to the sites. A
local federation goes the same way: `securefg run` starts a server and sites on loopback, submits
the job, shows the progress from the run's folder and stops what it started. There is one path, and
every run on a laptop tests the one that organisations take.

How messages go: as FLARE's auxiliary requests from the job's server process to the job's process at
each site, which are pushed and streamed. FLARE's tasks are fetched by clients in turns of seconds;
with auxiliary requests a step takes milliseconds. Task filters of a site do not see these; our own
policy, channel and ledger at the site stand in their place.

    courier.py     the server's side of one exchange: send, listen for signs of life, give up
    server_side.py the Engine over the courier
    controller.py, executor.py   the two thin pieces that FLARE loads
    kits.py, provisioning.py, enrolment.py   what every party is given before a run
    guard/         what stands between FLARE's network and a party

Packets, and everything that a site does with one, are in `securefg.site`.
"""
