// SPDX-License-Identifier: MIT
//! A server on tokio-uring: one task accepts, and each connection has one of its own.
//! `SERVER KIND epoll` is the same on tokio alone.

mod serve;

use serve::{Kind, Talk, PIECE};
use std::io::ErrorKind;
use tokio_uring::net::{TcpListener, TcpStream};

async fn talk(with: TcpStream, kind: Kind) -> std::io::Result<()> {
    let mut talk = Talk::new(kind);
    let mut piece = vec![0; PIECE];
    loop {
        let (heard, back) = with.read(piece).await;
        piece = back;
        match heard? {
            0 => return Ok(()),
            nr => with.write_all(talk.answer(&piece[..nr])).await.0?,
        }
    }
}

async fn talk_by_epoll(with: tokio::net::TcpStream, kind: Kind) -> std::io::Result<()> {
    let mut talk = Talk::new(kind);
    let mut piece = vec![0; PIECE];
    loop {
        with.readable().await?;
        match with.try_read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(nr) => say(&with, &talk.answer(&piece[..nr])).await?,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

async fn say(to: &tokio::net::TcpStream, mut answer: &[u8]) -> std::io::Result<()> {
    while !answer.is_empty() {
        to.writable().await?;
        match to.try_write(answer) {
            Ok(nr) => answer = &answer[nr..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn serve_by_epoll(kind: Kind) {
    let tasks = tokio::task::LocalSet::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    tasks.block_on(&runtime, async {
        let listener = serve::listen();
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::task::spawn_local(async move {
                talk_by_epoll(stream, kind).await.unwrap_or_else(serve::expected);
            });
        }
    });
}

fn main() {
    let kind = serve::begin();
    match std::env::args().nth(2).as_deref() {
        None => {}
        Some("epoll") => return serve_by_epoll(kind),
        other => panic!("{other:?} is not epoll"),
    }
    tokio_uring::builder().entries(4096).start(async {
        let listener = TcpListener::from_std(serve::listen());
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio_uring::spawn(async move {
                talk(stream, kind).await.unwrap_or_else(serve::expected);
            });
        }
    });
}
