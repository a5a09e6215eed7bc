# SPDX-License-Identifier: MIT
"""A private list, searched by weak.py."""

NEEDS = {
    "HAS_ROOM": ("RLX", "the putter's store cannot come between its last one in the "
                 "slot and the exchange that is glued to that; what keeps the store "
                 "from being made before the load is what the machine lacks"),
    "TAKE_SLOT": ("ACQ", "no thread reads what a taker did before the exchange; "
                  "that the chain of exchanges hands on what a putter released "
                  "needs no release of theirs"),
}
