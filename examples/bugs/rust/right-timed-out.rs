// SPDX-License-Identifier: MIT
//! Right: tokio-uring keeps the buffer of a read whose future is dropped until the read's
//! completion, as its operations own their buffers.
//!
//! expect: nothing

use std::os::unix::net::UnixStream;
use std::time::Duration;

fn main() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    tokio_uring::start(async {
        let ours = tokio_uring::net::UnixStream::from_std(ours);
        let read = ours.read(vec![0; 4096]);
        assert!(tokio::time::timeout(Duration::from_millis(10), read).await.is_err());
        drop(theirs); // ends the read
        tokio_uring::no_op().await.unwrap();
    });
}
