import { once } from 'node:events';
import { createServer, type IncomingMessage, request as startRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type LambdaResponseStream,
  LambdaSink,
  type ResponsePrelude,
} from '../../../shared/frontends/lambda/lambda-sink.ts';
import { waitUntil } from '../../support/wait-until.ts';
import {
  type FrameSinkHost,
  itKeepsTheFrameSinkContract,
  type OpenSink,
  type SinkClient,
} from './frame-sink.contract.ts';

const PRELUDE_END = Buffer.alloc(8);

describe('FrameSink over the response stream of a function', () => {
  let host: FrameSinkHost;
  beforeAll(async () => {
    host = await startRuntimeHost();
  });
  afterAll(() => host.close());
  itKeepsTheFrameSinkContract(() => host);

  it('aborts when the service drops the answer, and releases the waiting producer', async () => {
    const { sink, client } = await host.open();
    sink.head(200, {});
    sink.flush();
    await waitUntil(() => client.head());
    client.setReading(false);
    await waitUntil(() => {
      if (!sink.isBlocked()) sink.write('x'.repeat(1024 * 1024));
      return sink.isBlocked();
    });
    const released = new Promise<void>((resolve) => sink.onUnblocked(resolve));
    client.leave();
    await released;
    await waitUntil(() => sink.closed.aborted);
    sink.write('nobody reads this');
    sink.end();
  });

  it('refuses to be used in the wrong order', async () => {
    const { sink } = await host.open();
    expect(() => sink.write('x')).toThrow('before head');
    expect(() => sink.end()).toThrow('before head');
    sink.head(200, {});
    expect(() => sink.head(200, {})).toThrow('twice');
    sink.end();
  });
});

/** The service's end of the Runtime API: each `open` is one streamed answer, read as it is posted. */
async function startRuntimeHost(): Promise<FrameSinkHost> {
  const readers = new Map<string, PostedAnswer>();
  const server = createServer((incoming, response) => {
    readers.get(incoming.url ?? '')?.attach(incoming, () => response.writeHead(202).end());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // a listening TCP server has an AddressInfo
  return {
    seesClientLeave: false,
    keepsWritesTogether: true,
    async open(): Promise<OpenSink> {
      const path = `/${readers.size}`;
      const client = new PostedAnswer();
      readers.set(path, client);
      const { stream, openHttpStream } = openResponseStream(port, path);
      return { sink: new LambdaSink(stream, openHttpStream, 'GET'), client };
    },
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** The stream that the runtime client gives to a handler: a chunked POST, begun by the prelude. */
function openResponseStream(port: number, path: string) {
  const post = startRequest({ host: '127.0.0.1', port, path, method: 'POST', agent: false });
  post.setHeader('transfer-encoding', 'chunked');
  const stream: LambdaResponseStream = post;
  const openHttpStream = (underlying: LambdaResponseStream, prelude: ResponsePrelude): LambdaResponseStream => {
    post.write(JSON.stringify(prelude));
    post.write(PRELUDE_END);
    return underlying;
  };
  return { stream, openHttpStream };
}

/** Reads one posted answer: the prelude is its head, each chunk a piece. */
class PostedAnswer implements SinkClient {
  readonly #pieces: string[] = [];
  readonly #decoder = new TextDecoder();
  #incoming: IncomingMessage | undefined;
  #prelude: Buffer | undefined = Buffer.alloc(0);
  #head: ReturnType<SinkClient['head']>;
  #isReading = true;
  #isComplete = false;

  attach(incoming: IncomingMessage, acknowledge: () => void): void {
    this.#incoming = incoming;
    incoming.on('data', (chunk: Buffer) => this.#take(chunk));
    incoming.on('end', () => {
      this.#isComplete = true;
      acknowledge();
    });
    incoming.on('error', () => {}); // `leave` resets the connection
    this.setReading(this.#isReading);
  }

  pieces(): readonly string[] {
    return this.#pieces;
  }

  head(): ReturnType<SinkClient['head']> {
    return this.#head;
  }

  isComplete(): boolean {
    return this.#isComplete;
  }

  setReading(isReading: boolean): void {
    this.#isReading = isReading;
    if (isReading) this.#incoming?.resume();
    else this.#incoming?.pause();
  }

  leave(): void {
    this.#incoming?.socket.resetAndDestroy();
  }

  #take(chunk: Buffer): void {
    let body = chunk;
    if (this.#prelude !== undefined) {
      this.#prelude = Buffer.concat([this.#prelude, chunk]);
      const end = this.#prelude.indexOf(PRELUDE_END);
      if (end < 0) return;
      const { statusCode, headers } = JSON.parse(this.#prelude.toString('utf8', 0, end)) as ResponsePrelude;
      this.#head = { status: statusCode, headers };
      body = this.#prelude.subarray(end + PRELUDE_END.length);
      this.#prelude = undefined;
    }
    if (body.length > 0) this.#pieces.push(this.#decoder.decode(body, { stream: true }));
  }
}
