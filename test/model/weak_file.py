# SPDX-License-Identifier: MIT
"""References against closing, searched by weak.py."""

NEEDS = {}
