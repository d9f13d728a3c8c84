import { afterEach, describe, expect, it } from 'vitest';
import { ServeError } from '../../../../shared/errors/index.ts';
import { BodySendMode, STATUS } from '../../../../shared/grpc/index.ts';
import { waitUntil } from '../../../support/index.ts';
import { startPicker } from '../../../support/picker/picker-bed.ts';
import type { PlayedRequest, PlayedStream } from '../../../support/picker/played-envoy.ts';

type Picker = Awaited<ReturnType<typeof startPicker>>;
const opened: Picker[] = [];

async function start(...options: Parameters<typeof startPicker>): Promise<Picker> {
  const picker = await startPicker(...options);
  opened.push(picker);
  return picker;
}

afterEach(async () => {
  for (const each of opened.splice(0)) await each.close();
});

const BODY = JSON.stringify({ model: 'm', max_tokens: 4, messages: [{ role: 'user', content: 'hi' }] });

function ask(more: Partial<PlayedRequest> = {}): PlayedRequest {
  return { path: '/v1/chat/completions', headers: { 'content-type': 'application/json' }, body: BODY, ...more };
}

const BUFFERED = { request: BodySendMode.BUFFERED, response: BodySendMode.BUFFERED };
const NO_BODY = { ...BUFFERED, request: BodySendMode.NONE };
const ANTHROPIC = '/v1/messages';
const VERSION = { 'anthropic-version': '2023-06-01' };

describe('the endpoint picker refuses', () => {
  it.each([
    ['a body that is no JSON', ask({ body: '{' }), 400, 'invalid_request_error'],
    ['a body without messages', ask({ body: '{"model":"m"}' }), 400, 'invalid_request_error'],
    ['an unknown model', ask({ body: BODY.replace('"m"', '"other"') }), 404, 'invalid_request_error'],
    ['an empty body', { path: '/v1/chat/completions', method: 'POST' }, 415, 'invalid_request_error'],
    ['a buffered body that is no JSON', ask({ body: '{', modes: BUFFERED }), 400, 'invalid_request_error'],
  ])('%s as a frontend does', async (_, asked, status, type) => {
    const picker = await start();
    const refused = await picker.envoy.open().request(asked);
    expect(refused).toMatchObject({ kind: 'refused', status, headers: { 'x-request-id': expect.any(String) } });
    expect(JSON.parse((refused as { body: string }).body).error.type).toBe(type);
  });

  it.each([
    ['/v1/chat/completions', { error: { type: 'overloaded_error' } }],
    [ANTHROPIC, { type: 'error', error: { type: 'overloaded_error' } }],
  ])('a shed request to %s with 429, in the dialect of the route', async (path, body) => {
    const picker = await start({ settings: { anthropic: { isEnabled: true, stripsPreamble: false } } });
    picker.placer.failure = new ServeError('server_overloaded', 'every worker is busy', { retryAfterMs: 3000 });
    const refused = await picker.envoy.open().request(ask({ path }));
    expect(refused).toMatchObject({ kind: 'refused', status: 429, headers: { 'retry-after': '3' } });
    expect(JSON.parse((refused as { body: string }).body)).toMatchObject(body);
  });

  it.each([
    ['a mode that shows no body', ask({ path: ANTHROPIC, modes: NO_BODY }), 500, 'api_error'],
    ['a count of tokens without an endpoint', ask({ path: `${ANTHROPIC}/count_tokens` }), 503, 'overloaded_error'],
    ['models without an endpoint', { method: 'GET', path: '/v1/models', headers: VERSION }, 503, 'overloaded_error'],
  ])("%s in Anthropic's form to clients of Anthropic's API", async (_, asked, status, type) => {
    const picker = await start({
      workers: [],
      settings: { anthropic: { isEnabled: status === 500, stripsPreamble: false } },
    });
    const stream = picker.envoy.open();
    stream.sendHead(asked);
    const { response } = await stream.next();
    const refused = response.case === 'immediateResponse' ? response.value : undefined;
    expect(refused).toMatchObject({ status: { code: status } });
    const error = { type, message: expect.any(String) };
    expect(JSON.parse(Buffer.from(refused?.body ?? []).toString())).toMatchObject({ type: 'error', error });
  });

  it('with 503 as long as no worker is there', async () => {
    const picker = await start({ workers: [] });
    for (const asked of [ask(), ask({ path: ANTHROPIC }), { method: 'GET', path: '/v1/models' }]) {
      expect(await picker.envoy.open().request(asked)).toMatchObject({ kind: 'refused', status: 503 });
    }
  });

  it('bodies above the limit, and only those', async () => {
    const bytes = BODY.length;
    const picker = await start({ settings: { bodyLimitBytes: bytes } });
    expect(await picker.envoy.open().request(ask({ chunkBytes: 7 }))).toMatchObject({ kind: 'routed', body: BODY });
    const refused = await picker.envoy.open().request(ask({ body: ` ${BODY}`, chunkBytes: 7 }));
    expect(refused).toMatchObject({ kind: 'refused', status: 413 });
  });

  it('bodies that find no room among those of other requests', async () => {
    const body = BODY.replace('hi', 'hi '.repeat(400));
    // A body that is read is there twice, and one that waits for a worker once.
    const picker = await start({ bodyBudgetBytes: body.length * 2.5 });
    picker.placer.shut();
    const first = picker.envoy.open().request(ask({ body }));
    await waitUntil(() => picker.placer.waiting === 1, { what: 'a request that waits' });
    const second = await picker.envoy.open().request(ask({ body, chunkBytes: 100 }));
    expect(second).toMatchObject({ kind: 'refused', status: 429 });
    picker.placer.open();
    expect(await first).toMatchObject({ kind: 'routed', body });
    expect(picker.bodies.takenBytes).toBe(0);
  });

  /** Messages that no gateway may send in this order. */
  const OUT_OF_ORDER: readonly (readonly [name: string, play: (stream: PlayedStream) => Promise<void> | void])[] = [
    ['a body before its head', (stream) => stream.sendBody('x', true)],
    ['trailers before their head', (stream) => stream.send({ request: { case: 'requestTrailers', value: {} } })],
    ['a response before its request', (stream) => stream.send({ request: { case: 'responseHeaders', value: {} } })],
    [
      'the body of a response before its head',
      async (stream) => {
        await stream.request(ask());
        stream.send({ request: { case: 'responseBody', value: {} } });
      },
    ],
    [
      'a second head',
      async (stream) => {
        await stream.request(ask());
        stream.sendHead(ask());
      },
    ],
    [
      'a second response',
      async (stream) => {
        await stream.request(ask());
        stream.send({ request: { case: 'responseHeaders', value: {} } });
        stream.send({ request: { case: 'responseHeaders', value: {} } });
      },
    ],
    ['a message without a step', (stream) => stream.send({})],
  ];

  it.each(OUT_OF_ORDER)('%s, and frees its worker', async (_, play) => {
    const picker = await start();
    const stream = picker.envoy.open();
    await play(stream);
    expect(await stream.over).toMatchObject({
      code: STATUS.INVALID_ARGUMENT,
      details: expect.stringContaining('out of order'),
    });
    expect(picker.placer.released).toBe(picker.placer.placed);
    const outcomes = 'stator_endpoint_picker_requests_total{outcome=';
    expect(picker.metric(`${outcomes}"order_refused"`)).toEqual([`${outcomes}"order_refused"} 1`]);
    expect(picker.metric(`${outcomes}"left"`)).toEqual([`${outcomes}"left"} 0`]);
    expect(picker.metric('stator_endpoint_picker_streams ')).toEqual(['stator_endpoint_picker_streams 0']);
  });
});

describe('a gateway that leaves', () => {
  /** Ways to leave. */
  const WAYS = [
    ['cancels', (stream: PlayedStream) => stream.cancel()],
    ['ends its side', (stream: PlayedStream) => stream.halfClose()],
  ] as const;

  it.each(WAYS)('%s while the body comes: nothing is kept', async (_, leave) => {
    const picker = await start();
    const stream = picker.envoy.open();
    stream.sendHead(ask());
    stream.sendBody(BODY.slice(0, 10), false);
    await waitUntil(() => picker.bodies.takenBytes > 0, { what: 'the first chunk' });
    leave(stream);
    await stream.over;
    await waitUntil(() => picker.bodies.takenBytes === 0, { what: 'free room' });
    expect(picker.placer.placed).toBe(0);
  });

  it.each(WAYS)('%s while the request waits: no worker is reserved', async (_, leave) => {
    const picker = await start();
    picker.placer.shut();
    const stream = picker.envoy.open();
    void stream.request(ask()).catch(() => {}); // no answer comes
    await waitUntil(() => picker.placer.waiting === 1, { what: 'a request that waits' });
    leave(stream);
    await stream.over;
    await waitUntil(() => gone(picker) === 1, { what: 'the log line of a client that left' });
    picker.placer.open();
    await waitUntil(() => picker.placer.waiting === 0, { what: 'the end of the wait' });
    expect(picker.placer.placed).toBe(0);
    expect(picker.bodies.takenBytes).toBe(0);
  });

  it.each(WAYS)('%s in the middle of the answer: the worker is free again', async (_, leave) => {
    const picker = await start();
    const stream = picker.envoy.open();
    await stream.request(ask());
    stream.send({ request: { case: 'responseHeaders', value: {} } });
    await stream.next();
    await stream.respondPart('data: {}\n\n', false);
    leave(stream);
    await stream.over;
    await waitUntil(() => picker.placer.released === 1, { what: 'a free worker' });
    await waitUntil(() => gone(picker) === 1, { what: 'the log line of a client that left' });
  });

  it('answers by itself while the request waits: the wait ends', async () => {
    const picker = await start();
    picker.placer.shut();
    const stream = picker.envoy.open();
    stream.sendHead(ask());
    stream.sendBody(BODY, true);
    await waitUntil(() => picker.placer.waiting === 1, { what: 'a request that waits' });
    expect(await stream.respond(504, ['late'])).toBe('late');
    picker.placer.open();
    await waitUntil(() => picker.placer.waiting === 0, { what: 'the end of the wait' });
    expect(picker.placer.placed).toBe(0);
  });
});

/** Number of log lines of requests whose client left. */
function gone({ lines }: Picker): number {
  return lines.filter(({ message, fields }) => message === 'request completed' && fields.status === 499).length;
}
