import type { NodeTransport } from '@nats-io/transport-node/lib/node_transport.js';
import { loadNodeTransport } from './library.ts';

/** Longest message that is accepted from a server or sent to one. NATS itself advises against more. */
export const MESSAGE_BYTES_MAX = 8 << 20;
/** Largest headers of a message, beside its bytes. */
const HEADERS_BYTES_MAX = 64 << 10;
/** Longest line of a server; the longest are lists of the servers of a cluster. */
const LINE_BYTES_MAX = 256 << 10;
/** Largest amount that a server sends at once over a WebSocket: a message and lines, or many short ones. */
export const CHUNK_BYTES_MAX = 2 * MESSAGE_BYTES_MAX;
const GREETING_CHUNKS_MAX = 1000;
/** Pings that a server may send while it reads none of the answers. */
const UNREAD_PONGS_MAX = 1000;
const NEW_LINE = 10;
/**
 * Pattern of a message line: subject, number, perhaps a reply and the length of headers, and the length that counts.
 */
const MESSAGE = /^H?MSG[ \t]+[^ \t]+[ \t]+\d+(?:[ \t]+[^ \t]+){0,2}[ \t]+(\d+)$/i;

/**
 * Makes the library's transports with limits that it lacks. The library keeps everything that a server sends, including
 * promised lengths and endless lines; it goes on after its parser has given up; and it leaves the socket of a failed
 * greeting open.
 */
export async function guardedTransports(): Promise<{
  factory(): NodeTransport;
  dnsResolveFn(host: string): Promise<string[]>;
}> {
  const { NodeTransport: Transport, nodeResolveHost } = await loadNodeTransport();
  return { factory: () => guard(new Transport()), dnsResolveFn: nodeResolveHost };
}

function guard(transport: NodeTransport): NodeTransport {
  const peekInfo = transport.peekInfo.bind(transport);
  const close = transport.close.bind(transport);
  transport.peekInfo = () => {
    boundGreeting(transport);
    return peekInfo();
  };
  transport.close = async (error) => {
    if (transport.connected) await close(error);
    else transport.discard(); // the library's own does not close before the greeting is over
  };
  transport[Symbol.asyncIterator] = () => readWithin(transport);
  return transport;
}

function boundGreeting({ socket }: NodeTransport): void {
  let [chunks, bytes] = [0, 0];
  socket.on('data', (chunk: Uint8Array) => {
    chunks++;
    bytes += chunk.length;
    if (chunks > GREETING_CHUNKS_MAX || bytes > LINE_BYTES_MAX) {
      socket.destroy(new Error('the server does not send the greeting of NATS'));
    }
  });
}

/**
 * Yields what the transport reads, up to the first bytes that break a limit or that the parser cannot read; then the
 * connection is closed.
 */
async function* readWithin(transport: NodeTransport): AsyncIterableIterator<Uint8Array> {
  const bounds = new StreamBounds();
  let fault: Error = new Error('the server does not speak the protocol of NATS');
  try {
    for await (const chunk of transport.iterate()) {
      if (transport.socket?.writableLength === 0) bounds.pongsAreRead();
      const broken = bounds.check(chunk);
      if (broken !== undefined) {
        fault = new Error(`the server sends ${broken}`);
        return;
      }
      yield chunk;
    }
  } finally {
    await transport.close(fault); // no effect if it is closed
  }
}

/**
 * Follows the kinds and lengths of a server's lines: the library would write lines that it cannot read to the standard
 * output, byte by byte.
 *
 *     MSG subject sid [reply] 5\r\n      a line, of which the last number counts
 *     hello\r\n                          skipped; the rest up to the next line counts as one
 */
export class StreamBounds {
  #payloadBytes = 0;
  #line: Uint8Array = new Uint8Array(0);
  #isBehindPayload = false;
  #pings = 0;

  pongsAreRead(): void {
    this.#pings = 0;
  }

  /** Name of the limit that is exceeded; undefined while none is. */
  check(chunk: Uint8Array): string | undefined {
    let at = 0;
    while (at < chunk.length) {
      const passed = Math.min(this.#payloadBytes, chunk.length - at);
      this.#payloadBytes -= passed;
      at += passed;
      if (at === chunk.length) return undefined;
      const end = chunk.indexOf(NEW_LINE, at);
      const piece = chunk.subarray(at, end < 0 ? chunk.length : end);
      if (this.#line.length + piece.length > LINE_BYTES_MAX) return 'a line without an end';
      const line = this.#line.length === 0 ? piece : Buffer.concat([this.#line, piece]);
      if (end < 0) {
        this.#line = line.slice(); // the memory is used again
        return undefined;
      }
      this.#line = new Uint8Array(0);
      at = end + 1;
      const isTail = this.#isBehindPayload;
      this.#isBehindPayload = false;
      const broken = isTail ? undefined : this.#read(line);
      if (broken !== undefined) return broken;
    }
    return undefined;
  }

  #read(line: Uint8Array): string | undefined {
    const text = Buffer.from(line.buffer, line.byteOffset, line.length).toString('latin1').trimEnd();
    const message = MESSAGE.exec(text);
    if (message !== null) {
      this.#isBehindPayload = true;
      this.#payloadBytes = Number(message[1]);
      const isTooLong = this.#payloadBytes > MESSAGE_BYTES_MAX + HEADERS_BYTES_MAX;
      return isTooLong ? `a message of ${message[1]?.slice(0, 20)} bytes` : undefined;
    }
    if (/^PING$/i.test(text)) return ++this.#pings > UNREAD_PONGS_MAX ? 'pings and reads no answer' : undefined;
    if (/^INFO\s/i.test(text)) return isInfo(text.slice(5)) ? undefined : 'a malformed INFO';
    return /^(?:PONG$|\+OK$|-ERR\s)/i.test(text) ? undefined : 'a line that NATS does not have';
  }
}

function isInfo(json: string): boolean {
  try {
    const info: unknown = JSON.parse(json);
    return typeof info === 'object' && info !== null;
  } catch {
    return false; // that was the question
  }
}
