// SPDX-License-Identifier: MIT
//! The bug: a type that has its bytes in itself is declared to be a buffer of tokio-uring,
//! and so breaks IoBuf's promise that the bytes stay where they are when the value moves.
//! To mend it: implement IoBuf for a type whose bytes lie in the heap, such as Box<[u8]>.
//!
//! expect: stack-in-flight

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use tokio_uring::buf::IoBuf;

struct Line([u8; 64]);

unsafe impl IoBuf for Line {
    fn stable_ptr(&self) -> *const u8 {
        self.0.as_ptr()
    }

    fn bytes_init(&self) -> usize {
        self.0.len()
    }

    fn bytes_total(&self) -> usize {
        self.0.len()
    }
}

fn main() {
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    while ours.write(&[0; 4096]).is_ok() {} // full
    tokio_uring::start(async {
        let ours = tokio_uring::net::UnixStream::from_std(ours);
        let written = tokio_uring::spawn(async move { ours.write(Line([b'a'; 64])).submit().await.0 });
        tokio::task::yield_now().await;
        theirs.set_nonblocking(true).unwrap();
        while theirs.read(&mut [0; 4096]).is_ok() {}
        written.await.unwrap().unwrap();
    });
}
