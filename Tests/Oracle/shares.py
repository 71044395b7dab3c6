"""Shares of campaigns, as docs/variants.md explains them: the one share that each device is in.

The rule is written there, so that anybody can compute it. This is it once more, with whole fractions."""

import hashlib
from fractions import Fraction

LINE = 2**32
HOLDOUT, PAYLOAD = "holdout", "payload"


def ends(campaign):
    """Where each share ends on the line, in order: the holdout, the payload, the variants."""
    holdout = Fraction(campaign.holdout or 0)
    variants = [(variant.name, Fraction(variant.share)) for variant in campaign.variants]
    rest = 1 - holdout - sum(share for _, share in variants)
    sum_, found = Fraction(0), []
    for name, share in [(HOLDOUT, holdout), (PAYLOAD, rest), *variants]:
        sum_ += share
        found.append((round(sum_ * LINE), name))
    return found


def share_of(campaign, device):
    """The name of the share that a device is in, by its number."""
    point = int.from_bytes(hashlib.sha256(campaign.key.encode() + b"\0" + device.to_bytes(8, "big")).digest()[:4], "big")
    return next(name for end, name in ends(campaign) if point < end)
