# SPDX-License-Identifier: MIT
"""The lock, searched by weak.py."""

NEEDS = {}
