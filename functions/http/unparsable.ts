import { once } from 'node:events';
import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { openAiErrorBody, ServeError } from '../../shared/errors/index.ts';
import type { FetchApp } from './server.ts';

type ParseError = NodeJS.ErrnoException & { readonly rawPacket?: Buffer };

/** Start of a request line: method and path. */
const REQUEST_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+) (\/\S*) HTTP\/1\.[01]\r?\n/;

/**
 * Answers what Node's HTTP parser refuses, in our own envelope instead of Node's empty 400. Methods it does not know get
 * the app's own 404 or 405. The connection is closed after it.
 * @param earlier the last response on this connection; bytes of ours must not get into the middle of it
 */
export async function answerUnparsable(
  app: FetchApp,
  error: ParseError,
  socket: Socket,
  earlier: ServerResponse | undefined,
): Promise<void> {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  if (earlier?.req.complete === false && earlier.headersSent) {
    // What cannot be read is the rest of its own request, and its answer has begun.
    if (earlier.writableEnded) socket.end();
    else socket.destroy();
    return;
  }
  if (earlier?.req.complete === true && !earlier.writableFinished) {
    await once(earlier, 'close');
    if (!socket.writable) return; // it was the last one, or the client has left
  }
  const known = error.code === 'HPE_INVALID_METHOD' ? await askApp(app, error.rawPacket) : undefined;
  socket.end(toWire(known ?? envelopeOf(error)));
}

interface PlainAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

async function askApp(app: FetchApp, packet: Buffer | undefined): Promise<PlainAnswer | undefined> {
  const match = packet === undefined ? null : REQUEST_LINE.exec(packet.toString('latin1'));
  if (match === null) return undefined;
  const [, method = '', path = ''] = match;
  const response = await app.fetch(new Request(`http://localhost${path}`, { method }), {});
  return { status: response.status, headers: Object.fromEntries(response.headers), body: await response.text() };
}

function envelopeOf(error: ParseError): PlainAnswer {
  const failure = toFailure(error.code);
  const body = JSON.stringify(openAiErrorBody(failure));
  return { status: failure.status, headers: { 'content-type': 'application/json' }, body };
}

function toFailure(code: string | undefined): ServeError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new ServeError('headers_too_large', 'Request headers are too large');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new ServeError('invalid_value', 'The request did not arrive in time', { status: 408 });
    default:
      return new ServeError('invalid_value', 'The request is not valid HTTP');
  }
}

function toWire({ status, headers, body }: PlainAnswer): string {
  const lines = Object.entries({
    ...headers,
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines.join('')}\r\n${body}`;
}
