import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { LambdaStats } from './stats.ts';

const PRELUDE_TYPE = 'application/vnd.awslambda.http-integration-response';
const PRELUDE_END = Buffer.alloc(8);

/** First part of a streamed HTTP answer. */
export interface Prelude {
  readonly statusCode?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly multiValueHeaders?: Readonly<Record<string, string[]>>;
  readonly cookies?: readonly string[];
}

/** One HTTP request on its way through a function. */
export class Invocation {
  readonly id = randomUUID();
  readonly event: object;
  readonly #response: ServerResponse;
  readonly #stats: LambdaStats;
  #isSettled = false;
  #isClientGone = false;

  constructor(event: object, response: ServerResponse, stats: LambdaStats) {
    this.event = event;
    this.#response = response;
    this.#stats = stats;
    stats.invocations++;
    response.on('close', () => {
      if (response.writableFinished || this.#isSettled) return;
      this.#isClientGone = true;
      stats.clientsGone++;
    });
  }

  /** Whether the caller has its answer, good or bad. */
  get isSettled(): boolean {
    return this.#isSettled;
  }

  /** Passes the function's streamed answer on as it arrives: prelude and eight NUL bytes, body, error trailers. */
  async stream(answer: IncomingMessage): Promise<void> {
    let prelude: Buffer | undefined = Buffer.alloc(0);
    if (answer.headers['content-type'] !== PRELUDE_TYPE) {
      prelude = undefined;
      this.#head({ headers: { 'content-type': answer.headers['content-type'] ?? 'application/octet-stream' } });
    }
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      let body = chunk;
      if (prelude !== undefined) {
        prelude = Buffer.concat([prelude, chunk]);
        const end = prelude.indexOf(PRELUDE_END);
        if (end < 0) continue;
        this.#head(JSON.parse(prelude.toString('utf8', 0, end)) as Prelude);
        body = prelude.subarray(end + PRELUDE_END.length);
        prelude = undefined;
      }
      if (body.length > 0) await this.#forward(body);
    }
    const errorType = answer.trailers['lambda-runtime-function-error-type'];
    if (errorType !== undefined || prelude !== undefined) {
      this.#stats.streamErrors++;
      this.fail();
      return;
    }
    this.#isSettled = true;
    this.#response.end();
  }

  /**
   * Fails the invocation. Before the head, the caller gets an error of the service. After it, the connection breaks, so
   * that the client sees a truncated body.
   */
  fail(status = 502): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    if (this.#response.headersSent) this.#response.destroy();
    else
      this.#response
        .writeHead(status, { 'content-type': 'application/json' })
        .end('{"message":"Internal server error"}');
  }

  #head(prelude: Prelude): void {
    if (this.#isClientGone || this.#isSettled) return;
    const cookies = prelude.cookies ?? [];
    this.#response.writeHead(prelude.statusCode ?? 200, {
      ...prelude.headers,
      ...prelude.multiValueHeaders,
      ...(cookies.length > 0 ? { 'set-cookie': [...cookies] } : {}),
    });
    this.#response.flushHeaders();
  }

  /** Sends the body on. The service keeps reading after the client has left, so that the function notices nothing. */
  async #forward(body: Buffer): Promise<void> {
    if (this.#isClientGone || this.#isSettled) {
      this.#stats.bytesAfterClientGone += body.length;
      return;
    }
    if (this.#response.write(body)) return;
    const waiting = new AbortController();
    const options = { signal: waiting.signal };
    await Promise.race([once(this.#response, 'drain', options), once(this.#response, 'close', options)]);
    waiting.abort();
  }
}
