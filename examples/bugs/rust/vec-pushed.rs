// SPDX-License-Identifier: MIT
//! The bug: a byte is pushed to a vector whose memory a receive in flight fills, and the
//! vector moves to new memory.
//! To mend it: hand the vector over for as long as the receive is in flight, so that the
//! borrow checker sees this.
//!
//! expect: freed-in-flight

use io_uring::{opcode, types, IoUring};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

fn main() {
    let mut ring = IoUring::new(4).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut buffer = vec![0u8; 4096];
    let fd = types::Fd(ours.as_raw_fd());
    let receive = opcode::Recv::new(fd, buffer.as_mut_ptr(), 4096).build();
    unsafe { ring.submission().push(&receive).unwrap() };
    ring.submit().unwrap(); // expect: submitted
    buffer.extend_from_slice(&[b'\n'; 1 << 20]); // expect: now
    drop(theirs); // ends the receive
    ring.submit_and_wait(1).unwrap();
    ring.completion().next().unwrap();
}
