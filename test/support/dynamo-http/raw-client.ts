import { connect } from 'node:net';
import type { RecordedRow } from './records.ts';

export interface RawRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Buffer | undefined;
}

/** The time at which a client hangs up before the answer is complete. */
export type HangUp = { readonly after: 'first-frame' } | { readonly once: Promise<unknown> } | undefined;

/** Returns the request of a row as bytes on the wire. */
export function requestOf(row: RecordedRow): RawRequest {
  const { request } = row;
  const headers = (request.headers ?? [['content-type', 'application/json']]).flatMap((pair) => expand(pair));
  const count = /^(\d+) headers in all/.exec(request.headers_note ?? '')?.[1];
  if (count !== undefined) {
    const present = headers.length;
    for (let at = present; at < Number(count); at++) headers.push([`x-dynamo-meta-k${at - 1}`, 'v']);
  }
  return { method: request.method, path: request.path, headers, body: bodyOf(row) };
}

/** Expands `vvv...(66000 chars)` to that many characters. */
function expand([name, value]: readonly [string, string]): [string, string][] {
  const match = /^(.)\1\1\.\.\.\((\d+) chars\)$/.exec(value);
  return [[name, match === null ? value : match[1]!.repeat(Number(match[2]))]];
}

function bodyOf({ request }: RecordedRow): Buffer | undefined {
  if (request.body_bytes !== undefined) return Buffer.from(request.body_bytes, 'latin1');
  const mebibytes = /^(\d+) MiB string/.exec(request.body_note ?? '')?.[1];
  if (mebibytes !== undefined) {
    const content = 'x'.repeat(Number(mebibytes) * 1024 * 1024);
    return Buffer.from(JSON.stringify({ model: 'plain', messages: [{ role: 'user', content }] }));
  }
  return request.body === undefined || request.body === null ? undefined : Buffer.from(JSON.stringify(request.body));
}

/**
 * Sends exactly these bytes on a connection of its own. Resolves with all bytes from the server, up to the end of the
 * connection.
 */
export function send(port: number, request: RawRequest, hangUp: HangUp): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    const chunks: Buffer[] = [];
    const finish = (): void => {
      socket.destroy();
      resolve(Buffer.concat(chunks));
    };
    const isChunked = request.headers.some(([name]) => name === 'transfer-encoding');
    const lines = [['host', `127.0.0.1:${port}`], ['connection', 'close'], ...request.headers];
    if (request.body !== undefined && !isChunked) lines.push(['content-length', String(request.body.length)]);
    socket.write(
      `${request.method} ${request.path} HTTP/1.1\r\n${lines.map((line) => `${line.join(': ')}\r\n`).join('')}\r\n`,
      'latin1',
    );
    if (request.body !== undefined) socket.write(request.body);
    if (hangUp !== undefined && 'once' in hangUp) hangUp.once.then(finish, reject);
    socket.on('data', (chunk) => {
      chunks.push(chunk);
      if (hangUp !== undefined && 'after' in hangUp && chunk.includes('data: ')) finish();
    });
    socket.on('end', finish);
    socket.on('error', () => finish()); // a server may close the connection after it refuses half a request
  });
}
