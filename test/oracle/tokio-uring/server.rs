// SPDX-License-Identifier: MIT
//! A server on tokio-uring: one task accepts, and each connection has one of its own.

mod serve;

use serve::{Kind, Talk, PIECE};
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

fn main() {
    let kind = serve::begin();
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
