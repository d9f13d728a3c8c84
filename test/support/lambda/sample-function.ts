/** A small app under the real adapter, for the suites of the adapter. Each route shows one behaviour. */
import { Hono } from 'hono';
import { isErrorCode, ServeError } from '../../../shared/errors/index.ts';
import { alreadySent, BodyIntake, type HostExchange, type HttpBindings } from '../../../shared/frontends/http/index.ts';
import { ByteBudget } from '../../../shared/frontends/inference/index.ts';
import { createLambdaHandler } from '../../../shared/frontends/lambda/lambda-handler.ts';
import type { LambdaRuntime } from '../../../shared/frontends/lambda/lambda-sink.ts';

declare const awslambda: LambdaRuntime;

const EVENT_STREAM = { 'content-type': 'text/event-stream' };
let requests = 0;
let starts = 0;
let endsByCancel = 0;

const app = new Hono<{ Bindings: HttpBindings }>();
app.onError((error) => {
  throw error; // to the adapter, whose answer is under test
});

app.all('/echo', async (c) => {
  const exchange = exchangeOf(c.env);
  const limitBytes = 192 * 1024 * 1024;
  const intake = new BodyIntake(limitBytes, new ByteBudget('bodies_bytes', limitBytes), undefined);
  await exchange.readBody(intake);
  const body = Buffer.from(await intake.finish());
  const headers = Object.fromEntries(exchange.headerNames().map((name) => [name, exchange.header(name)]));
  const { method, path, query, headerLines } = exchange;
  return c.json({ method, path, query, headerLines, headers, bytes: body.length, body: body.toString('hex', 0, 64) });
});

app.get('/counts', (c) => c.json({ requests: ++requests, starts, endsByCancel, pid: process.pid }));

app.get('/cookies', (c) => {
  c.header('set-cookie', 'a=1; Path=/', { append: true });
  c.header('set-cookie', 'b=2', { append: true });
  c.header('connection', 'keep-alive');
  c.header('x-text', 'caf\u00e9 au lait');
  return c.text('hello');
});

app.get('/written', (c) => {
  const { sink } = exchangeOf(c.env);
  sink.head(Number(c.req.query('status') ?? '200'), { 'x-written': 'yes' });
  sink.write('a body');
  sink.end();
  return alreadySent();
});

app.get('/nothing', (c) => c.body(null, 204));
app.get('/elsewhere', (c) => c.redirect('/counts'));

app.get('/error/:code', (c) => {
  const code = c.req.param('code');
  throw isErrorCode(code) ? new ServeError(code, 'as asked', { retryAfterMs: 1500 }) : new Error('a secret detail');
});

/** One event, then one more each time the gate answers. */
app.get('/gated', (c) => {
  const { sink } = exchangeOf(c.env);
  const gate = c.req.query('gate') ?? '';
  const events = Number(c.req.query('events') ?? '3');
  sink.head(200, EVENT_STREAM);
  void (async () => {
    for (let at = 0; at < events; at++) {
      if (at > 0) await (await fetch(gate)).text();
      sink.write(`data: ${at}\n\n`);
    }
    sink.end();
  })();
  return alreadySent();
});

/** Many bytes, as fast as the reader takes them; tells how often it had to wait. */
app.get('/flood', (c) => {
  const { sink } = exchangeOf(c.env);
  const frames = Number(c.req.query('frames'));
  const frame = Buffer.alloc(64 * 1024, 'x');
  sink.head(200, { 'content-type': 'application/octet-stream' });
  let sent = 0;
  let waits = 0;
  const pump = (): void => {
    while (sent < frames) {
      if (sink.isBlocked()) {
        waits++;
        sink.onUnblocked(pump);
        return;
      }
      sink.write(frame);
      sent++;
    }
    sink.write(`waits=${waits}`);
    sink.end();
  };
  pump();
  return alreadySent();
});

/** Never ends by itself; `polite` ends when the deadline says so. */
app.get('/endless', (c) => {
  const { sink, deadline } = exchangeOf(c.env);
  if (c.req.query('head') !== 'never') {
    sink.head(200, { 'content-type': c.req.query('type') ?? 'text/event-stream' });
    sink.write('data: first\n\n');
  }
  sink.closed.addEventListener('abort', () => endsByCancel++);
  if (c.req.query('polite') === 'true') {
    deadline?.addEventListener('abort', () => {
      sink.write(`event: error\ndata: ${(deadline.reason as ServeError).code}\n\n`);
      sink.end();
    });
  }
  return alreadySent();
});

app.get('/broken-body', () => {
  const chunks = [new TextEncoder().encode('half of ')];
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const chunk = chunks.pop();
      if (chunk === undefined) await new Promise((resolve) => setTimeout(resolve, 1)); // a turn, in which the first half leaves
      if (chunk === undefined) controller.error(new Error('the source failed'));
      else controller.enqueue(chunk);
    },
  });
  return new Response(body, { headers: { 'content-type': 'text/plain' } });
});

app.get('/crash', () => {
  setImmediate(() => {
    throw new Error('outside of every handler');
  });
  return alreadySent();
});

function exchangeOf(bindings: HttpBindings): HostExchange {
  if (bindings.exchange === undefined) throw new Error('the host gave no exchange');
  return bindings.exchange;
}

/** Fails as often as `FAILING_STARTS` says. */
async function startApp(): Promise<typeof app> {
  starts++;
  if (starts <= Number(process.env.FAILING_STARTS ?? '0')) throw new Error('the table is away');
  return app;
}

const { handler: serve } = createLambdaHandler(startApp, {
  openHttpStream: (stream, prelude) => awslambda.HttpResponseStream.from(stream, prelude),
  deadlineMarginMs: Number(process.env.MARGIN_MS ?? '10000'),
  onFailure: (error, requestId) =>
    console.error(`failed ${error.code} ${requestId} ${error.cause instanceof Error ? error.cause.message : ''}`),
});
export const handler = awslambda.streamifyResponse(serve);

// An open timer would keep the environment busy if the adapter waited for an empty event loop.
setInterval(() => {}, 60_000);
