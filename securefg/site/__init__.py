"""An organisation's side of a federation, whichever engine carries its messages.

A site holds private data and trusts nobody with it. Before anything leaves, the site checks the
request against its own policy and plan, books the release, and only then lets a host see the
request. No module here knows NVIDIA FLARE; `securefg.flare` is one engine that carries packets
to and from these modules.

    policy.py      the site's floor: what it demands of every job
    books.py       jobs, releases and scores, over all runs, in logs that show tampering
    gate.py        clip, noise, floor and books for updates of jobs that are not securefg's
    plan.py        the plan that a site reviewed, and whether a job is that plan
    job.py         a job as every party reads it
    certificates.py, packets.py, roster.py   signed requests, replies and masking keys
    taking_up.py   the checks before a job is taken up
    terms.py       what the plan lets a server ask
    run.py         one job at one site: each request checked, booked and answered
    record.py      the site's own transcript of a run
    scores.py, findings.py   the scores and audit findings that a site may share
"""
