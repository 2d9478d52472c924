"""Audits of the mechanisms themselves, without any training: canaries through the run's own rules.

For every private field that promises noise, and for whole messages, games are played against what a
real channel emits under the run's own policy (`uploads.py`), and the privacy loss they show is
compared with what the accountant claims for the same releases. `audit.py` plays them all:

    canary   the textbook game: u = +-C e (or 0 and C e, or 0 and as far as the protected node or
             edge moves the value), scores summed over the rounds
    moved    the canary of a node in all releases at once
    loud     the canary far above the clip, which clipping before the noise must make harmless
    linked   whole messages over several rounds, with the uploads of two clients that the adversary
             knows. A pilot finds how noises hang together, and the canary that exploits it, and
             noises of the messages of one round beside each other
    seed     the noise drawn again from seeds that an adversary would try
    redraw   the noise drawn again for the same clients, round and value: it must be another one
    birthday equal draws among many, which show that seeds are few
    shape    the size of the noise at the planned shape of the array
    whole    messages of the planned shape, row by row: size, independence and clip everywhere
    training a private training's own step: noise, clip, sampling and denominator
    mask     coins under the masks of real sessions (`mask_reuse.py`)
"""
