// SPDX-License-Identifier: MIT
//! The bug: a future owns the buffer of its read, and is dropped, as by select!, while
//! the read is in flight.
//! To mend it: on drop, cancel the read and leave the buffer to the ring until the
//! completion has been reaped.
//!
//! expect: freed-in-flight

use io_uring::{opcode, types, IoUring};
use std::cell::RefCell;
use std::future::Future;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};

struct Read<'a> {
    ring: &'a RefCell<IoUring>,
    source: &'a UnixStream,
    buffer: Vec<u8>,
}

impl Future for Read<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context) -> Poll<()> {
        let fd = types::Fd(self.source.as_raw_fd());
        let read = opcode::Read::new(fd, self.buffer.as_mut_ptr(), 4096).build();
        let mut ring = self.ring.borrow_mut();
        unsafe { ring.submission().push(&read).unwrap() };
        ring.submit().unwrap(); // expect: submitted
        Poll::Pending
    }
}

struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

fn main() {
    let ring = RefCell::new(IoUring::new(4).unwrap());
    let (source, target) = UnixStream::pair().unwrap();
    let waker = Arc::new(Nobody).into();
    let mut read = Box::pin(Read { ring: &ring, source: &source, buffer: vec![0; 4096] });
    let _ = read.as_mut().poll(&mut Context::from_waker(&waker));
    drop(read); // expect: now
    drop(target); // ends the read
    ring.borrow_mut().submit_and_wait(1).unwrap();
    ring.borrow_mut().completion().next().unwrap();
}
