// SPDX-License-Identifier: MIT
//! Cargo wants a library beside examples.
