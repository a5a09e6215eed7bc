// SPDX-License-Identifier: MIT
//! Nothing: cargo wants a library or a program beside tests.
