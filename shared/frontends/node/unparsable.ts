import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Random } from '../../clock/index.ts';
import { openAiErrorBody, ServeError } from '../../errors/index.ts';
import { adoptTarget, ambiguousFraming, haveLeft } from '../../fleet/index.ts';
import type { HttpApp } from '../http/app.ts';
import { requestIdOf } from '../inference/deps.ts';

type ParseError = NodeJS.ErrnoException & { readonly rawPacket?: Buffer; readonly bytesParsed?: number };

/** Pattern of a request line: method and path. */
const REQUEST_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+) (\/\S*) HTTP\/1\.[01]\r?\n/;
/** Pattern of the client's request id, in the part of the request that the parser had reached. */
const REQUEST_ID_LINE = /\nx-request-id:([^\r\n]*)\r?\n/i;

/** A connection with bytes that Node's HTTP parser refuses. */
interface Unparsable {
  readonly error: ParseError;
  readonly socket: Socket;
  /** Last response on this connection. The refusal must not be written into the middle of it. */
  readonly earlier: ServerResponse | undefined;
  /** Responses that have not completely left. The refusal must come after them. */
  readonly underWay: readonly ServerResponse[];
}

/**
 * Answers a request that Node's HTTP parser refuses, with Stator's error body instead of Node's empty 400. For an
 * unknown method the app's own 404 or 405 is the answer.
 * @returns the last bytes of the connection; the caller closes it after them
 */
export async function answerUnparsable(
  app: HttpApp,
  { error, socket, earlier, underWay }: Unparsable,
  random: Random,
): Promise<Uint8Array | undefined> {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return undefined;
  }
  const isOwn = earlier?.req.complete === false; // the unreadable part is the rest of the last request
  await haveLeft(socket, isOwn ? underWay.filter((response) => response !== earlier) : underWay);
  if (!socket.writable) return undefined; // the last response has ended it, or the client has left
  if (isOwn && earlier.headersSent) {
    if (!earlier.writableEnded) socket.destroy();
    return undefined;
  }
  const packet = unparsed(error);
  const requestId = requestIdOf(REQUEST_ID_LINE.exec(packet)?.[1]?.trim(), random);
  const known = error.code === 'HPE_INVALID_METHOD' ? await askApp(app, packet, requestId) : undefined;
  return toWire(known ?? envelopeOf(toFailure(error.code), requestId));
}

/** Returns the bytes that arrived with the fault, from the faulty line or head on. Other requests may precede it. */
function unparsed({ rawPacket, bytesParsed = 0, code }: ParseError): string {
  const packet = rawPacket?.toString('latin1') ?? '';
  const before = code === 'HPE_INVALID_METHOD' ? '\n' : '\r\n\r\n';
  const at = bytesParsed === 0 ? -1 : packet.lastIndexOf(before, bytesParsed - 1);
  return at < 0 ? packet : packet.slice(at + before.length);
}

/**
 * Answers a request that Node could parse but the app cannot serve: its target and its `Host` make no URL, or a proxy
 * would read it differently.
 * @returns false if the app can serve it
 */
export function refuseUnroutable(incoming: IncomingMessage, outgoing: ServerResponse, random: Random): boolean {
  const fault = ambiguousFraming(incoming) ?? hostFault(incoming) ?? adoptTarget(incoming) ?? hostFault(incoming);
  if (fault === undefined) return false;
  refuse(incoming, outgoing, new ServeError('invalid_value', fault), random);
  return true;
}

/** Answers an `Expect` other than `100-continue`. */
export function refuseExpectation(incoming: IncomingMessage, outgoing: ServerResponse, random: Random): void {
  const message = 'The only supported expectation is `100-continue`';
  refuse(incoming, outgoing, new ServeError('invalid_value', message, { status: 417 }), random);
}

/** Pattern of nearly every `Host`; the others are parsed as a URL. */
const PLAIN_HOST = /^[a-z0-9][a-z0-9.-]*(?::\d{1,5})?$/i;

/**
 * Returns a fault of the target or the `Host`. The caller checks the header first, and then the host that the target
 * names instead.
 */
function hostFault({ url = '', headers: { host }, httpVersion }: IncomingMessage): string | undefined {
  const isTarget = !url.split('?', 1)[0]?.includes('\\');
  const isHost =
    host === undefined || host === '' ? httpVersion === '1.0' : PLAIN_HOST.test(host) || isUnusualHost(host);
  return isTarget && isHost ? undefined : 'The request has no valid target and Host header';
}

/** Returns whether a URL keeps the host unchanged, such as an IPv6 address in brackets. */
function isUnusualHost(host: string): boolean {
  const text = `http://${host}/`;
  const name = host.replace(/:\d+$/, '').toLowerCase();
  return URL.canParse(text) && new URL(text).hostname === name;
}

function refuse(incoming: IncomingMessage, outgoing: ServerResponse, error: ServeError, random: Random): void {
  const given = incoming.headers['x-request-id'];
  const { status, headers, body } = envelopeOf(error, requestIdOf(String(given ?? ''), random));
  outgoing.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body), connection: 'close' }).end(body);
}

interface PlainAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

async function askApp(app: HttpApp, packet: string, requestId: string): Promise<PlainAnswer | undefined> {
  const match = REQUEST_LINE.exec(packet);
  if (match === null) return undefined;
  const [, method = '', path = ''] = match;
  const headers = { 'x-request-id': requestId };
  const response = await app.fetch(new Request(`http://localhost${path}`, { method, headers }));
  return { status: response.status, headers: Object.fromEntries(response.headers), body: await response.text() };
}

function envelopeOf(error: ServeError, requestId: string): PlainAnswer {
  const body = JSON.stringify(openAiErrorBody(error));
  return { status: error.status, headers: { 'content-type': 'application/json', 'x-request-id': requestId }, body };
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

function toWire({ status, headers, body }: PlainAnswer): Buffer {
  const lines = Object.entries({
    ...headers,
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines.join('')}\r\n`;
  return Buffer.concat([Buffer.from(head, 'latin1'), Buffer.from(body)]); // headers are Latin-1, bodies UTF-8
}
