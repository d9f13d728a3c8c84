/** A small app under the real adapter, for the suites of the adapter. Each route shows one behaviour. */
import { isErrorCode } from '../../../shared/errors/codes.ts';
import { openAiErrorBody, ServeError, toServeError } from '../../../shared/errors/index.ts';
import { BodyIntake } from '../../../shared/frontends/http/exchange/body-intake.ts';
import type { HostExchange } from '../../../shared/frontends/http/exchange/exchange.ts';
import { ByteBudget } from '../../../shared/frontends/inference/deps.ts';
import { createLambdaHandler } from '../../../shared/frontends/lambda/lambda-handler.ts';
import type { LambdaRuntime } from '../../../shared/frontends/lambda/lambda-sink.ts';
import type { FunctionApp } from '../../../shared/frontends/lambda/running-app.ts';

declare const awslambda: LambdaRuntime;

const EVENT_STREAM = { 'content-type': 'text/event-stream' };
let requests = 0;
let starts = 0;
let endsByCancel = 0;

/** Routes by the first part of the path. */
const routes: Readonly<Record<string, (exchange: HostExchange, query: URLSearchParams) => void | Promise<void>>> = {
  async echo(exchange) {
    const limitBytes = 192 * 1024 * 1024;
    const intake = new BodyIntake(limitBytes, new ByteBudget('bodies_bytes', limitBytes), undefined);
    await exchange.readBody(intake);
    const body = Buffer.from(await intake.finish());
    const headers = Object.fromEntries(exchange.headerNames().map((name) => [name, exchange.header(name)]));
    const { method, path, query, headerLines } = exchange;
    const told = { method, path, query, headerLines, headers, bytes: body.length, body: body.toString('hex', 0, 64) };
    sendJson(exchange, 200, told);
  },

  counts: (exchange) => sendJson(exchange, 200, { requests: ++requests, starts, endsByCancel, pid: process.pid }),

  headers({ sink }) {
    sink.head(200, { 'content-length': '5', 'x-text': 'caf\u00e9 au lait' });
    sink.write('hello');
    sink.end();
  },

  written({ sink }, query) {
    sink.head(Number(query.get('status') ?? '200'), { 'x-written': 'yes' });
    sink.write('a body');
    sink.end();
  },

  /** Fails before it starts an exchange with the app. */
  error({ path }) {
    const code = path.split('/')[2] ?? '';
    throw isErrorCode(code) ? new ServeError(code, 'as asked', { retryAfterMs: 1500 }) : new Error('a secret detail');
  },

  /** Sends one event, then one more each time the gate answers. */
  async gated({ sink }, query) {
    sink.head(200, EVENT_STREAM);
    for (let at = 0; at < Number(query.get('events') ?? '3'); at++) {
      if (at > 0) await (await fetch(query.get('gate') ?? '')).text();
      sink.write(`data: ${at}\n\n`);
    }
    sink.end();
  },

  /** Sends many bytes, as fast as the reader takes them, and reports how often it had to wait. */
  async flood({ sink }, query) {
    const frame = Buffer.alloc(64 * 1024, 'x');
    sink.head(200, { 'content-type': 'application/octet-stream' });
    let waits = 0;
    for (let sent = 0; sent < Number(query.get('frames')); sent++) {
      if (sink.isBlocked()) {
        waits++;
        await new Promise<void>((resolve) => sink.onUnblocked(resolve));
      }
      sink.write(frame);
    }
    sink.write(`waits=${waits}`);
    sink.end();
  },

  /** Never ends by itself; `polite` ends at the deadline. */
  endless({ sink, deadline }, query) {
    if (query.get('head') !== 'never') {
      sink.head(200, { 'content-type': query.get('type') ?? 'text/event-stream' });
      sink.write('data: first\n\n');
    }
    sink.closed.addEventListener('abort', () => endsByCancel++);
    if (query.get('polite') === 'true') {
      deadline?.addEventListener('abort', () => {
        sink.write(`event: error\ndata: ${(deadline.reason as ServeError).code}\n\n`);
        sink.end();
      });
    }
  },

  'broken-body'({ sink }) {
    sink.head(200, { 'content-type': 'text/plain' });
    sink.write('half of ');
    setTimeout(() => sink.breakOff(new Error('the source failed')), 1); // a later turn, after the first half has left
  },

  crash() {
    setImmediate(() => {
      throw new Error('outside of every handler');
    });
  },
};

const app: FunctionApp = {
  serve(exchange) {
    const serve = routes[exchange.path.split('/')[1] ?? ''];
    if (serve === undefined) return sendJson(exchange, 404, {});
    const served = serve(exchange, new URLSearchParams(exchange.query));
    served?.catch((thrown: unknown) => {
      const error = toServeError(thrown);
      sendJson(exchange, error.status, openAiErrorBody(error));
    });
  },
};

function sendJson({ sink }: HostExchange, status: number, body: object): void {
  sink.head(status, { 'content-type': 'application/json' });
  sink.write(JSON.stringify(body));
  sink.end();
}

/** Starts the app, and fails as often as `FAILING_STARTS` says. */
async function startApp(): Promise<FunctionApp> {
  starts++;
  if (starts <= Number(process.env.FAILING_STARTS ?? '0')) throw new Error('the table is unreachable');
  return app;
}

const { handler: serve } = createLambdaHandler(startApp, {
  openHttpStream: (stream, prelude) => awslambda.HttpResponseStream.from(stream, prelude),
  deadlineMarginMs: Number(process.env.MARGIN_MS ?? '10000'),
  onFailure: (error, requestId) =>
    console.error(`failed ${error.code} ${requestId} ${error.cause instanceof Error ? error.cause.message : ''}`),
});
export const handler = awslambda.streamifyResponse(serve);

// An open timer, which would keep the environment busy if the adapter waited for an empty event loop.
setInterval(() => {}, 60_000);
