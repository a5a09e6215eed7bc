# SPDX-License-Identifier: MIT
"""What clients share with the library, searched by weak.py."""

NEEDS = {}
