import type { IncomingMessage, ServerResponse } from 'node:http';
import { ServeError } from '../../../errors/index.ts';
import { type BodyIntake, bodyUnreadable } from '../bodies/body-intake.ts';
import type { HostExchange } from './exchange.ts';
import type { FrameSink } from './frame-sink.ts';
import { NodeFrameSink } from './node-sink.ts';

/** The exchange of a Node HTTP server: reads from `incoming`, responds through `NodeFrameSink`. */
export class NodeExchange implements HostExchange {
  readonly sink: FrameSink;
  readonly path: string;
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
        if (!isWanted) return; // read to its end all the same, so that the client hears the response
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
