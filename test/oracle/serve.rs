// SPDX-License-Identifier: MIT
//! What the servers of Rust's runtimes share: what serve.h and the C servers beside it
//! have for C.
//!
//! `SERVER echo` sends back what it receives, and `SERVER http` answers `GET /N` with N
//! bytes, each of which follows from N and its place. A server prints its port, and
//! serves until its standard input ends.

use std::io::Read;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is received at once.
pub const PIECE: usize = 16 << 10;

const BACKLOG: i32 = 4096;
const SEND_BYTES: i32 = 32 << 10;
const ASKED_BYTES_MAX: usize = 4096;
const BODY_BYTES_MAX: usize = 1 << 20;

#[derive(Clone, Copy)]
pub enum Kind {
    Echo,
    Http,
}

static NR_TALKS: AtomicUsize = AtomicUsize::new(0);

/// What one client has said that is not answered yet.
pub struct Talk {
    kind: Kind,
    asked: Vec<u8>,
}

impl Talk {
    pub fn new(kind: Kind) -> Talk {
        NR_TALKS.fetch_add(1, Ordering::Relaxed);
        Talk { kind, asked: Vec::new() }
    }

    /// The answer to what the client says, empty if it has not said all of a question.
    pub fn answer(&mut self, heard: &[u8]) -> Vec<u8> {
        if let Kind::Echo = self.kind {
            return heard.to_vec();
        }
        let mut answer = Vec::new();
        self.asked.extend_from_slice(heard);
        while let Some(at) = self.asked.windows(4).position(|end| end == b"\r\n\r\n") {
            let question: Vec<u8> = self.asked.drain(..at + 4).collect();
            answer_question(&question, &mut answer);
        }
        assert!(self.asked.len() < ASKED_BYTES_MAX);
        answer
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        // What the process then has it needs without connections.
        if NR_TALKS.fetch_sub(1, Ordering::Relaxed) == 1 {
            unsafe { libc::malloc_trim(0) };
        }
    }
}

fn answer_question(question: &[u8], answer: &mut Vec<u8>) {
    let line = std::str::from_utf8(question).unwrap();
    let size = line.strip_prefix("GET /").unwrap().split(' ').next().unwrap();
    let size: usize = size.parse().unwrap();
    assert!(size <= BODY_BYTES_MAX);
    answer.extend(
        format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n").bytes());
    answer.extend((0..size).map(|i| ((size * 7 + i) % 251) as u8));
}

/// A socket that listens at any port of any address. Connections send little at once,
/// so that clients which do not read hold their sends up.
pub fn listen() -> TcpListener {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let fd = listener.as_raw_fd();
    unsafe {
        assert_eq!(libc::setsockopt(
            fd, libc::SOL_SOCKET, libc::SO_SNDBUF,
            &SEND_BYTES as *const i32 as *const libc::c_void, 4), 0);
        // The standard library asks for less.
        assert_eq!(libc::listen(fd, BACKLOG), 0);
    }
    println!("{}", listener.local_addr().unwrap().port());
    listener
}

/// What the command line says is served. The process ends when its standard input does,
/// and with a failure when anything is not as expected, in a task, too.
pub fn begin() -> Kind {
    std::panic::set_hook(Box::new(|why| {
        eprintln!("{why}");
        std::process::exit(1);
    }));
    std::thread::spawn(|| {
        let nr = std::io::stdin().read(&mut [0]).unwrap();
        std::process::exit((nr != 0) as i32);
    });
    match std::env::args().nth(1).as_deref() {
        Some("echo") => Kind::Echo,
        Some("http") => Kind::Http,
        other => panic!("{other:?} is neither echo nor http"),
    }
}

/// A client that has reset the connection is no fault of the server's.
pub fn expected(error: std::io::Error) {
    let number = error.raw_os_error().unwrap();
    assert!(number == libc::EPIPE || number == libc::ECONNRESET, "{error}");
}
