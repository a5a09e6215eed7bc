// SPDX-License-Identifier: MIT
//
// node node.mjs FOLDER NUMBER: files by fs.promises and by a file server.
//
// NUMBER files are written, renamed, read back and looked at, many at a time; a
// server then sends them to clients in the same process, which compare what they
// get. What each holds follows from its number. It fails if anything differs.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import * as fs from 'node:fs/promises';
import * as http from 'node:http';
import * as path from 'node:path';

const [folder, number] = [process.argv[2], Number(process.argv[3])];
const AT_ONCE = 64;

function bytesOf(i) {
  const length = (i * 7919) % 20000;
  return createHash('shake256', { outputLength: length }).update(`${i}`).digest();
}

function demand(isSo, what) {
  if (!isSo) {
    console.error(`wrong: ${what}`);
    process.exit(1);
  }
}

async function each(count, work) {
  let next = 0;
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    while (next < count) {
      const i = next++;
      await work(i);
    }
  }));
}

function nameOf(i) {
  return path.join(folder, `file-${i}`);
}

async function writeAndRead(i) {
  const data = bytesOf(i);
  const temporary = nameOf(i) + '.new';
  const file = await fs.open(temporary, 'w');
  await file.write(data);
  if (i % 50 === 0)
    await file.sync();
  await file.close();
  await fs.rename(temporary, nameOf(i));
  demand((await fs.stat(nameOf(i))).size === data.length, `size of ${i}`);
  demand(data.equals(await fs.readFile(nameOf(i))), `bytes of ${i}`);
}

function get(port, i) {
  return new Promise((resolve, reject) => {
    http.get({ port, path: `/${i}`, agent: false }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('end', () => resolve(Buffer.concat(parts)));
      answer.on('error', reject);
    }).on('error', reject);
  });
}

async function serve(count) {
  const server = http.createServer((question, answer) => {
    createReadStream(nameOf(Number(question.url.slice(1))))
      .on('error', () => answer.destroy()).pipe(answer);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await each(count, async (i) => {
    demand(bytesOf(i).equals(await get(port, i)), `what is served of ${i}`);
  });
  await new Promise((resolve) => server.close(resolve));
}

async function refused() {
  const code = await fs.readFile(path.join(folder, 'missing'))
    .catch((error) => error.code);
  demand(code === 'ENOENT', `a missing file: ${code}`);
}

await each(number, writeAndRead);
await serve(Math.min(number, 1000));
await refused();
const left = await fs.readdir(folder);
demand(left.length === number, `${left.length} files`);
await each(number, (i) => fs.unlink(nameOf(i)));
console.log(`${number} files`);
