import { connect } from 'node:net';
import type { Answer, Frame, Json, RecordedRow } from './records.ts';

/** Headers of a recorded row that are compared. */
const COMPARED = ['content-type', 'cache-control', 'allow', 'location', 'retry-after', 'x-request-id'] as const;

export interface RawRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Buffer | undefined;
}

/** When to hang up before the answer is complete. */
export type HangUp = { readonly after: 'first-frame' } | { readonly once: Promise<unknown> } | undefined;

/** The request of a row as bytes on the wire. */
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

/** `vvv...(66000 chars)` stands for so many characters. */
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

/** Sends exactly these bytes on a connection of its own and reads to its end. */
export function send(port: number, request: RawRequest, hangUp: HangUp): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    const chunks: Buffer[] = [];
    const finish = (): void => {
      socket.destroy();
      try {
        resolve(parseAnswer(Buffer.concat(chunks)));
      } catch (error) {
        reject(error);
      }
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
    socket.on('error', () => finish()); // a server may close on a request that it refused half way
  });
}

function parseAnswer(bytes: Buffer): Answer {
  const split = bytes.indexOf('\r\n\r\n');
  if (split < 0) return { status: null, headers: {}, text: '' };
  const [statusLine = '', ...lines] = bytes.subarray(0, split).toString('latin1').split('\r\n');
  const all = new Map(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  );
  const headers = Object.fromEntries(COMPARED.filter((name) => all.has(name)).map((name) => [name, all.get(name)!]));
  const raw = bytes.subarray(split + 4);
  const payload = (all.get('transfer-encoding') === 'chunked' ? unchunk(raw) : raw).toString('utf8');
  const status = Number(statusLine.split(' ')[1]);
  const type = all.get('content-type') ?? '';
  if (type.startsWith('text/event-stream')) return { status, headers, frames: parseFrames(payload) };
  if (payload !== '' && type.includes('json')) return { status, headers, body: JSON.parse(payload) as Json };
  return { status, headers, text: payload };
}

function unchunk(raw: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < raw.length; ) {
    const lineEnd = raw.indexOf('\r\n', at);
    if (lineEnd < 0) break;
    const size = Number.parseInt(raw.subarray(at, lineEnd).toString('latin1'), 16);
    if (size === 0) break;
    parts.push(raw.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = lineEnd + 2 + size + 2;
  }
  return Buffer.concat(parts);
}

export function parseFrames(text: string): readonly Frame[] {
  return text
    .split('\n\n')
    .filter((block) => block !== '')
    .map((block) => {
      const frame: { event?: string; data?: Json; comment?: string } = {};
      for (const line of block.split('\n')) {
        if (line.startsWith('data: ')) frame.data = parseData(line.slice(6));
        else if (line.startsWith('event: ')) frame.event = line.slice(7);
        else if (line.startsWith(':')) frame.comment = line.slice(1).trim();
      }
      return frame;
    });
}

function parseData(text: string): Json {
  return text === '[DONE]' ? text : (JSON.parse(text) as Json);
}
