// SPDX-License-Identifier: MIT
//! Right: a buffer that is forgotten while its read is in flight is never freed, so that
//! the kernel may write to it at any time.
//!
//! expect: nothing

use io_uring::{opcode, types, IoUring};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

fn main() {
    let mut ring = IoUring::new(4).unwrap();
    let (source, mut target) = UnixStream::pair().unwrap();
    let mut buffer = vec![0u8; 4096];
    let fd = types::Fd(source.as_raw_fd());
    let read = opcode::Read::new(fd, buffer.as_mut_ptr(), 4096).build();
    unsafe { ring.submission().push(&read).unwrap() };
    ring.submit().unwrap();
    std::mem::forget(buffer);
    target.write_all(b"late").unwrap();
    ring.submit_and_wait(1).unwrap();
    assert_eq!(ring.completion().next().unwrap().result(), 4);
}
