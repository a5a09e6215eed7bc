// SPDX-License-Identifier: MIT
//
// node server.mjs echo|http FOLDER: a server on Node, and so on libuv, with
// UV_USE_IO_URING=1.
//
// It sends back what it receives, or answers `GET /N` with N bytes, each of which
// follows from N and its place: it reads them from a file in FOLDER. It prints its port,
// and serves until its standard input ends. libuv makes requests of io_uring to tell its
// epoll of each connection, and to open, read and close files.
import { createReadStream } from 'node:fs';
import * as fs from 'node:fs/promises';
import * as http from 'node:http';
import * as net from 'node:net';
import * as path from 'node:path';

const [kind, folder] = process.argv.slice(2);
const BACKLOG = 4096;
const PERIOD = 251;
const BODY_BYTES_MAX = 1 << 20;
const bodies = path.join(folder, 'bodies');

// That a client has reset the connection is no fault of the server's.
function expected(error) {
  if (!['ECONNRESET', 'EPIPE', 'ERR_STREAM_PREMATURE_CLOSE'].includes(error.code))
    throw error;
}

function echo(socket) {
  socket.on('error', expected).pipe(socket);
}

// A client has said all, and has all answers: Node leaves such a connection open.
const unanswered = new WeakMap();

function endIfOver(socket) {
  if (socket.readableEnded && !unanswered.get(socket))
    socket.end();
}

function answer(question, reply) {
  const { socket } = question;
  unanswered.set(socket, (unanswered.get(socket) ?? 0) + 1);
  reply.on('finish', () => {
    unanswered.set(socket, unanswered.get(socket) - 1);
    endIfOver(socket);
  });
  const bytes = Number(question.url.slice(1));
  reply.sendDate = false;
  reply.removeHeader('Connection');
  reply.setHeader('Content-Length', bytes);
  if (bytes === 0) {
    reply.end();
    return;
  }
  const start = bytes * 7 % PERIOD;
  const body = createReadStream(bodies, { start, end: start + bytes - 1 });
  reply.on('close', () => body.destroy());
  body.on('error', expected).pipe(reply);
}

const servers = {
  echo: () => net.createServer({ allowHalfOpen: true }, echo),
  async http() {
    // Each body begins at one of the first PERIOD bytes.
    await fs.writeFile(bodies, Buffer.from(
      Array.from({ length: BODY_BYTES_MAX + PERIOD }, (_, i) => i % PERIOD)));
    const server = http.createServer({ keepAliveTimeout: 0 }, answer);
    server.requestTimeout = server.headersTimeout = 0;
    server.httpAllowHalfOpen = true;
    server.on('connection',
      (socket) => socket.on('end', () => endIfOver(socket)));
    return server;
  },
};

const server = await servers[kind]();
server.listen({ port: 0, host: '0.0.0.0', backlog: BACKLOG },
  () => console.log(server.address().port));
process.stdin.on('end', () => process.exit(0)).resume();
