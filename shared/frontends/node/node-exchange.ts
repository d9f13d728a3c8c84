import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { type Flushable, flushAtEndOfTurn, spendOfTurn } from '../../concurrency/index.ts';
import { ServeError } from '../../errors/index.ts';
import { type BodyIntake, bodyUnreadable } from '../http/exchange/body-intake.ts';
import type { FrameSink, HostExchange } from '../http/exchange/exchange.ts';

/** Bytes that may wait for a slow client before `isBlocked` returns true. */
const HIGH_WATER_BYTES = 64 * 1024;
/** Characters that one turn may queue before they are written early. */
const TURN_CHARS_MAX = 64 * 1024;

const ASCII = /^[\x20-\x7e]*$/;

/**
 * Writes one response to a Node server's socket. This class frames chunks itself, so that the frames of a turn leave as
 * one string in one write, and the first ones together with the head. Node does the rest: head, keep-alive, pipelining.
 */
export class NodeFrameSink implements FrameSink, Flushable {
  readonly #outgoing: ServerResponse;
  #pending = '';
  #isPendingAscii = true;
  /** The socket, once this response owns it and Node buffers nothing of it. Later writes go straight to the socket. */
  #direct: Socket | undefined;
  #isFull = false;
  #isListed = false;
  #isHeadSent = false;
  #isHeadAscii = true;
  #isChunked = false;
  #hasBody = true;
  #isEnded = false;
  #closed: AbortController | undefined;
  #waiters: (() => void)[] = [];

  constructor(outgoing: ServerResponse) {
    this.#outgoing = outgoing;
  }

  get isNew(): boolean {
    return !this.#outgoing.headersSent;
  }

  head(status: number, headers: Readonly<Record<string, string>>): void {
    const outgoing = this.#outgoing;
    if (this.#isEnded || outgoing.destroyed) return;
    const { req } = outgoing;
    this.#hasBody = req.method !== 'HEAD' && status !== 204 && status !== 304;
    this.#isChunked = this.#hasBody && headers['content-length'] === undefined && outgoing.useChunkedEncodingByDefault;
    for (const name in headers) if (!ASCII.test(headers[name]!)) this.#isHeadAscii = false;
    outgoing.writeHead(status, this.#isChunked ? { ...headers, 'transfer-encoding': 'chunked' } : headers);
    outgoing.chunkedEncoding = false; // the head announced chunks; this class frames them
  }

  write(frame: string | Uint8Array, isKnownAscii = false): void {
    if (this.#isEnded || !this.#hasBody) return;
    spendOfTurn(frame.length);
    if (typeof frame !== 'string') {
      this.flush();
      this.#writeBytes(frame);
      return;
    }
    this.#pending += frame;
    if (!isKnownAscii) this.#isPendingAscii = false;
    if (this.#pending.length > TURN_CHARS_MAX) this.flush();
    else if (!this.#isListed) {
      this.#isListed = true;
      flushAtEndOfTurn(this);
    }
  }

  flush(): void {
    this.#isListed = false;
    if (this.#isEnded) return;
    const text = this.#pending;
    const isAscii = this.#isPendingAscii;
    this.#pending = '';
    this.#isPendingAscii = true;
    if (text !== '') {
      const bytes = isAscii ? text.length : Buffer.byteLength(text);
      const data = this.#isChunked ? `${bytes.toString(16)}\r\n${text}\r\n` : text;
      // Equal lengths mean ASCII, which latin1 writes faster.
      this.#send(data, bytes === text.length ? 'latin1' : 'utf8');
    } else if (!this.#isHeadSent && this.#outgoing.headersSent && !this.#outgoing.destroyed) {
      this.#isHeadSent = true;
      this.#outgoing.flushHeaders();
    }
  }

  end(): void {
    if (this.#isEnded) return;
    const text = this.#pending;
    this.#pending = '';
    this.#isEnded = true;
    if (!this.#outgoing.destroyed) this.#end(text);
    this.#releaseWaiters();
  }

  breakOff(): void {
    if (this.#isEnded) return;
    this.#pending = '';
    this.#outgoing.destroy(); // the event 'close' follows, and does the rest
  }

  isBlocked(): boolean {
    // Node said that the socket takes no more for now. Only then is it worth asking how much waits.
    if (!this.#isFull && this.#pending.length <= HIGH_WATER_BYTES) return false;
    return !this.#isEnded && this.#pending.length + this.#outgoing.writableLength > HIGH_WATER_BYTES;
  }

  onUnblocked(callback: () => void): void {
    if (!this.isBlocked() || this.#outgoing.destroyed) {
      queueMicrotask(callback);
      return;
    }
    this.#waiters.push(callback);
    if (this.#waiters.length > 1) return;
    // A response that waits for its turn on a pipelined connection has no socket yet and drains on its own event.
    const source = this.#outgoing.socket ?? this.#outgoing;
    const release = (): void => {
      source.off('drain', release); // a long response waits many times
      this.#outgoing.off('close', release);
      this.#releaseWaiters();
    };
    source.once('drain', release);
    this.#outgoing.once('close', release);
  }

  get closed(): AbortSignal {
    return (this.#closed ?? this.#watchClose()).signal;
  }

  #watchClose(): AbortController {
    const controller = new AbortController();
    this.#closed = controller;
    const outgoing = this.#outgoing;
    const abort = (): void => {
      if (!this.#isEnded) controller.abort();
    };
    if (outgoing.destroyed || outgoing.req.socket.destroyed) {
      abort();
      return controller;
    }
    outgoing.once('close', abort);
    // A response that waits behind another one on the same connection gets no event from Node.
    if (outgoing.socket === null) outgoing.req.socket.once('close', abort);
    return controller;
  }

  #send(data: string, encoding: 'latin1' | 'utf8'): void {
    if (this.#direct !== undefined) {
      this.#isFull = !this.#direct.write(data, encoding);
      return;
    }
    const outgoing = this.#outgoing;
    if (outgoing.destroyed) return;
    if (!this.#isHeadSent) {
      this.#isHeadSent = true;
      // Node joins head and text into one string in the text's encoding, which is correct only for an ASCII head.
      this.#isFull = !(this.#isHeadAscii
        ? outgoing.write(data, encoding)
        : outgoing.write(Buffer.from(data, encoding)));
      return;
    }
    const { socket } = outgoing;
    if (socket?.writable && outgoing.writableLength <= socket.writableLength) {
      this.#direct = socket;
      this.#isFull = !socket.write(data, encoding);
    } else {
      this.#isFull = !outgoing.write(data, encoding);
    }
  }

  #writeBytes(bytes: Uint8Array): void {
    if (bytes.length === 0 || this.#outgoing.destroyed) return;
    this.#isHeadSent = true;
    if (this.#isChunked) this.#outgoing.write(`${bytes.length.toString(16)}\r\n`, 'latin1');
    this.#isFull = !this.#outgoing.write(bytes);
    if (this.#isChunked) this.#isFull = !this.#outgoing.write('\r\n', 'latin1');
  }

  #end(text: string): void {
    const chunk = this.#isChunked && text !== '' ? `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n` : text;
    const data = this.#isChunked ? `${chunk}0\r\n\r\n` : chunk;
    if (data === '') this.#outgoing.end();
    else if (this.#isHeadAscii || this.#isHeadSent) this.#outgoing.end(data, 'utf8');
    else this.#outgoing.end(Buffer.from(data));
  }

  #releaseWaiters(): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const callback of waiters) callback();
  }
}

/** Returns the scheme of a request: `https` if it came over TLS. */
export function schemeOf({ socket }: IncomingMessage): 'http' | 'https' {
  return (socket as Partial<TLSSocket>).encrypted === true ? 'https' : 'http';
}

/** The exchange of a Node HTTP server: it reads `incoming` and answers through `NodeFrameSink`. */
export class NodeExchange implements HostExchange {
  readonly sink: FrameSink;
  path: string;
  readonly query: string;
  readonly #incoming: IncomingMessage;

  constructor(incoming: IncomingMessage, outgoing: ServerResponse) {
    this.#incoming = incoming;
    this.sink = new NodeFrameSink(outgoing);
    const target = incoming.url ?? '/';
    const mark = target.indexOf('?');
    this.path = mark < 0 ? target : target.slice(0, mark);
    this.query = mark < 0 ? '' : target.slice(mark + 1);
  }

  get method(): string {
    return this.#incoming.method ?? 'GET';
  }

  get scheme(): 'http' | 'https' {
    return schemeOf(this.#incoming);
  }

  get httpVersion(): string {
    return this.#incoming.httpVersion;
  }

  get peer(): string | undefined {
    return this.#incoming.socket.remoteAddress;
  }

  get headerLines(): number {
    return this.#incoming.rawHeaders.length / 2;
  }

  headerNames(): readonly string[] {
    return Object.keys(this.#incoming.headers);
  }

  header(name: string): string | undefined {
    const value = this.#incoming.headers[name];
    if (typeof value !== 'string') return value?.[0];
    return value.includes(', ') ? this.#firstLine(name) : value; // Node joins the lines of one name
  }

  readBody(intake: BodyIntake): Promise<void> {
    const incoming = this.#incoming;
    return new Promise((resolve, reject) => {
      intake.expect(Number(incoming.headers['content-length'] ?? 0));
      let isWanted = true;
      incoming.on('data', (chunk: Buffer) => {
        if (!isWanted) return; // read to its end nevertheless, so that the client gets the response
        try {
          intake.add(chunk);
        } catch (thrown) {
          isWanted = false;
          reject(thrown);
        }
      });
      incoming.once('end', resolve);
      incoming.once('error', (error) => reject(bodyUnreadable(error)));
      incoming.once('close', () => {
        if (!incoming.readableEnded) reject(bodyUnreadable(new ServeError('client_closed_request', 'client left')));
      });
    });
  }

  #firstLine(name: string): string | undefined {
    const raw = this.#incoming.rawHeaders;
    for (let at = 0; at < raw.length; at += 2) if (raw[at]!.toLowerCase() === name) return raw[at + 1];
    return undefined;
  }
}
