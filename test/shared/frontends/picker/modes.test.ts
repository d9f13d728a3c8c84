import { afterEach, describe, expect, it } from 'vitest';
import { BodySendMode } from '../../../../shared/grpc/index.ts';
import { waitUntil } from '../../../support/index.ts';
import { startPicker, workerAt } from '../../../support/picker/picker-bed.ts';
import type { PlayedRequest, PlayedStream } from '../../../support/picker/played-envoy.ts';

const { BUFFERED, BUFFERED_PARTIAL, FULL_DUPLEX_STREAMED, NONE, STREAMED } = BodySendMode;

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

const TEXT = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi '.repeat(60_000) }] });

function chat(more: Partial<PlayedRequest> = {}): PlayedRequest {
  const headers = { 'content-type': 'application/json' };
  return { path: '/v1/chat/completions', headers, body: TEXT, ...more };
}

/** Modes in which a gateway hands over the bodies of request and response. */
const MODES: readonly (readonly [name: string, more: Partial<PlayedRequest>])[] = [
  ['in chunks', { chunkBytes: 10_000 }],
  ['in chunks, with trailers', { chunkBytes: 10_000, hasTrailers: true }],
  ['in one chunk', {}],
  ['in chunks, from a data plane that names no modes', { chunkBytes: 10_000, modes: null }],
  ['buffered', { modes: { request: BUFFERED, response: BUFFERED } }],
  ['buffered, with trailers', { hasTrailers: true, modes: { request: BUFFERED, response: BUFFERED } }],
  ['buffered, with a streamed response', { modes: { request: BUFFERED, response: STREAMED } }],
  ['in chunks, with a streamed response', { modes: { request: FULL_DUPLEX_STREAMED, response: STREAMED } }],
];

describe('a request at the endpoint picker', () => {
  it.each(MODES)('goes to the chosen worker with its whole body when that comes %s', async (_, more) => {
    const picker = await start();
    const stream = picker.envoy.open();
    const routed = await stream.request(chat(more));
    expect(routed).toMatchObject({
      kind: 'routed',
      headers: {
        'x-gateway-destination-endpoint': '10.0.0.1:8000',
        'x-dynamo-worker-instance-id': String(0xa1),
        'x-dynamo-dp-rank': '1',
        'x-dynamo-routing-mode': 'aggregated',
      },
      metadata: { 'envoy.lb': { 'x-gateway-destination-endpoint': '10.0.0.1:8000' } },
      body: TEXT,
    });
    expect(await stream.respond(200, ['{"a":', '1}'])).toBe('{"a":1}');
    expect(picker.placer).toMatchObject({ placed: 1, begun: 1, released: 1 });
    stream.halfClose();
    expect(await stream.over).toMatchObject({ code: 0 });
    expect(picker.bodies.takenBytes).toBe(0);
  });

  it('holds its worker until the whole answer has passed', async () => {
    const picker = await start();
    const stream = picker.envoy.open();
    await stream.request(chat());
    expect(picker.placer).toMatchObject({ begun: 0, released: 0 });
    stream.send({ request: { case: 'responseHeaders', value: {} } });
    await stream.next();
    expect(picker.placer.begun).toBe(0);
    await stream.respondPart('data: {}\n\n', false);
    expect(picker.placer).toMatchObject({ begun: 1, released: 0 });
    await stream.respondPart('data: [DONE]\n\n', true);
    expect(picker.placer).toMatchObject({ begun: 1, released: 1 });
  });

  it.each([
    ['ends its side', (stream: PlayedStream) => stream.halfClose()],
    ['cancels, as Envoy does', (stream: PlayedStream) => stream.cancel()],
  ])('holds its worker until the gateway %s, if it shows no body of the answer', async (_, leave) => {
    const picker = await start();
    const stream = picker.envoy.open();
    await stream.request(chat({ modes: { request: FULL_DUPLEX_STREAMED, response: NONE } }));
    await stream.respondHead(200);
    expect(picker.placer.released).toBe(0);
    leave(stream);
    await stream.over;
    await waitUntil(() => picker.placer.released === 1, { what: 'a free worker' });
    expect(completed(picker)).toMatchObject([{ status: 200 }]);
  });

  it('frees its worker at the head of a whole answer, if the gateway shows no body of the answer', async () => {
    const picker = await start();
    const stream = picker.envoy.open();
    await stream.request(chat({ modes: { request: FULL_DUPLEX_STREAMED, response: NONE } }));
    await stream.respondHead(200, { 'content-length': '20' });
    expect(picker.placer.released).toBe(1);
    expect(completed(picker)).toMatchObject([{ status: 200 }]);
  });

  it('counts its prompt as computed at the head of a stream, if the gateway shows no body of the answer', async () => {
    const picker = await start();
    const stream = picker.envoy.open();
    await stream.request(chat({ modes: { request: FULL_DUPLEX_STREAMED, response: NONE } }));
    await stream.respondHead(200);
    expect(picker.placer).toMatchObject({ begun: 1, released: 0 });
  });

  it('logs the usage that the answer reports, whole or streamed', async () => {
    const picker = await start();
    const usage = '"usage":{"prompt_tokens":5,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}';
    for (const chunks of [
      [`{"choices":[{"message":{"content":"a \\"usage\\": {}"}}],${usage}}`],
      ['data: {"choices":[],"usage":null}\n\n', `data: {"choices":[],${usage}}\n\n`, 'data: [DONE]\n\n'],
    ]) {
      const stream = picker.envoy.open();
      await stream.request(chat());
      await stream.respond(200, chunks);
    }
    const told = { status: 200, input_tokens: 5, output_tokens: 9, cached_tokens: 4, worker_id: 'a1' };
    expect(completed(picker)).toMatchObject([told, told]);
  });

  it('logs the status of an answer that failed', async () => {
    const picker = await start();
    const stream = picker.envoy.open();
    await stream.request(chat());
    await stream.respond(503, ['{}']);
    expect(completed(picker)).toMatchObject([{ status: 503 }]);
    expect(picker.placer.released).toBe(1);
  });

  it('names the prefill worker and its endpoint', async () => {
    const picker = await start();
    picker.placer.prefill = { worker: workerAt('ff', '10.0.0.9:7/x'), dpRank: 3 };
    const routed = await picker.envoy.open().request(chat());
    expect(routed).toMatchObject({
      headers: {
        'x-dynamo-routing-mode': 'disaggregated',
        'x-dynamo-prefill-instance-id': '255',
        'x-dynamo-prefill-dp-rank': '3',
        'x-prefiller-host-port': '10.0.0.9:8000',
      },
    });
    expect(routed).not.toMatchObject({ removed: expect.arrayContaining(['x-prefiller-host-port']) });
  });

  it('loses the headers with which a client could choose for the gateway', async () => {
    const picker = await start();
    const routed = await picker.envoy.open().request(chat());
    const control = ['x-prefiller-host-port', 'x-gateway-destination-endpoint-served', 'x-dynamo-prefill-instance-id'];
    expect(routed).toMatchObject({ removed: expect.arrayContaining(control) });
  });

  it.each([
    ['a list', ['10.0.0.3:8000', '10.0.0.2:8000']],
    ['a text', '10.0.0.3:8000, 10.0.0.2:8000'],
    ['addresses without ports', ['10.0.0.2']],
  ])('stays within the subset that the gateway gives as %s', async (_, subset) => {
    const picker = await start();
    const routed = await picker.envoy.open().request(chat({ subset }));
    expect(routed).toMatchObject({ headers: { 'x-gateway-destination-endpoint': '10.0.0.2:8000' } });
  });

  it.each(['[fd00::2]', 'fd00::2', '[fd00::2]:8000', '[fd00:0:0:0::2]', 'fd00:0000::0002', '[fd00:0::2]:8000'])(
    'stays within the subset %s',
    async (subset) => {
      const picker = await start({ workers: [workerAt('a1', '[fd00::1]:7/x'), workerAt('b2', '[fd00::2]:7/x')] });
      const routed = await picker.envoy.open().request(chat({ subset }));
      expect(routed).toMatchObject({ headers: { 'x-gateway-destination-endpoint': '[fd00::2]:8000' } });
    },
  );

  it.each([[[]], ['10.0.0.7:8000'], [['10.0.0.1:9']]])(
    'is refused with 503 if no worker is in the subset %j',
    async (subset) => {
      const picker = await start();
      const stream = picker.envoy.open();
      const refused = await stream.request(chat({ subset }));
      expect(refused).toMatchObject({ kind: 'refused', status: 503, headers: { 'content-type': 'application/json' } });
      expect(await stream.over).toMatchObject({ code: 0 });
    },
  );

  it('goes to no worker whose address is not an IP address', async () => {
    const picker = await start({ workers: [workerAt('a1', 'worker-0:7/x'), workerAt('b2', '[fd00::2]:7/x')] });
    const routed = await picker.envoy.open().request(chat());
    expect(routed).toMatchObject({ headers: { 'x-gateway-destination-endpoint': '[fd00::2]:8000' } });
  });

  it.each([
    [0, '10.0.0.1:8000'],
    [1, '10.0.0.1:8001'],
    [undefined, '10.0.0.1:8000'],
  ])('goes to the port of rank %s if each rank has a port', async (dpRank, endpoint) => {
    const picker = await start({ ports: [8000, 8001, 8002], workers: [workerAt('a1', '10.0.0.1:7/x', 2)] });
    picker.placer.dpRank = dpRank;
    picker.placer.prefill = { worker: workerAt('ff', '10.0.0.9:7/x', 3), dpRank: 2 };
    const routed = await picker.envoy.open().request(chat());
    const headers = { 'x-gateway-destination-endpoint': endpoint, 'x-prefiller-host-port': '10.0.0.9:8002' };
    expect(routed).toMatchObject({ headers });
  });

  it('goes to no worker that has more ranks than there are ports', async () => {
    const workers = [workerAt('a1', '10.0.0.1:7/x', 3), workerAt('b2', '10.0.0.2:7/x', 2)];
    const picker = await start({ ports: [8000, 8001], workers });
    const routed = await picker.envoy.open().request(chat());
    expect(routed).toMatchObject({ headers: { 'x-gateway-destination-endpoint': '10.0.0.2:8001' } });
  });

  it('goes to no worker of whose ports some are outside the subset', async () => {
    const workers = [workerAt('a1', '10.0.0.1:7/x', 2), workerAt('b2', '10.0.0.2:7/x', 2)];
    const picker = await start({ ports: [8000, 8001], workers });
    const routed = await picker.envoy.open().request(chat({ subset: '10.0.0.1:8001,10.0.0.2:8000,10.0.0.2:8001' }));
    expect(routed).toMatchObject({ headers: { 'x-gateway-destination-endpoint': '10.0.0.2:8001' } });
  });

  it('names further endpoints if the settings ask for them', async () => {
    const workers = [1, 2, 3, 4].map((at) => workerAt(`a${at}`, `10.0.0.${at}:7/x`));
    const picker = await start({ workers, fallbacks: 2 });
    const routed = await picker.envoy.open().request(chat());
    const list = '10.0.0.1:8000,10.0.0.2:8000,10.0.0.3:8000';
    expect(routed).toMatchObject({
      headers: { 'x-gateway-destination-endpoint': list },
      metadata: { 'envoy.lb': { 'x-gateway-destination-endpoint': list } },
    });
  });

  it('frees its worker when another endpoint begins to answer, and counts such answers', async () => {
    const picker = await start();
    const stream = picker.envoy.open();
    await stream.request(chat());
    await stream.respondHead(200, {}, '10.0.0.2:8000');
    expect(picker.placer).toMatchObject({ placed: 1, released: 1 });
    await stream.respondPart('{}', true);
    expect(completed(picker)).toMatchObject([{ status: 200 }]);
    expect(picker.metric('stator_endpoint_picker_served_elsewhere_total ')).toEqual([
      'stator_endpoint_picker_served_elsewhere_total 1',
    ]);
  });

  it('loses the headers with which a client could choose a worker, if any endpoint answers it', async () => {
    const picker = await start();
    const routed = await picker.envoy.open().request({ method: 'GET', path: '/v1/models' });
    const control = ['x-dynamo-worker-instance-id', 'x-worker-instance-id', 'x-dynamo-dp-rank', 'x-dp-rank'];
    expect(routed).toMatchObject({ removed: expect.arrayContaining([...control, 'x-dynamo-routing-mode']) });
  });

  it('goes on in few messages if it came byte by byte', async () => {
    const picker = await start();
    const stream = picker.envoy.open();
    const asked = chat({ body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }] }) });
    expect(await stream.request({ ...asked, chunkBytes: 1 })).toMatchObject({ kind: 'routed', body: asked.body });
    expect(stream.read).toBeLessThanOrEqual(3);
  });

  it.each([
    ['a list of models', { method: 'GET', path: '/v1/models' }],
    ['a route of the engine', { path: '/v1/audio/transcriptions', body: 'RIFF' }],
  ])('may be %s, which any endpoint answers', async (_, asked) => {
    const picker = await start();
    const stream = picker.envoy.open();
    const { body, ...head } = asked as PlayedRequest;
    stream.sendHead({ ...head, ...(body === undefined ? {} : { body }), subset: '10.0.0.2:8000' });
    const routed = await stream.next();
    expect(routed.dynamicMetadata).toEqual({ 'envoy.lb': { 'x-gateway-destination-endpoint': '10.0.0.2:8000' } });
    expect(picker.placer.placed).toBe(0);
    expect(await stream.respond(200, ['{}'])).toBe('{}');
  });

  it.each([NONE, STREAMED, BUFFERED_PARTIAL])('cannot be picked for in mode %i, and says so', async (mode) => {
    const picker = await start();
    const stream = picker.envoy.open();
    stream.sendHead(chat({ modes: { request: mode, response: FULL_DUPLEX_STREAMED } }));
    const { response } = await stream.next();
    expect(response).toMatchObject({ case: 'immediateResponse', value: { status: { code: 500 } } });
    const body = response.case === 'immediateResponse' ? Buffer.from(response.value.body).toString() : '';
    expect(JSON.parse(body).error.message).toContain(`request_body_mode ${BodySendMode[mode]}`);
  });

  it('has no answers in observability mode', async () => {
    const picker = await start();
    const stream = picker.envoy.open();
    stream.send({ observabilityMode: true, request: { case: 'requestHeaders', value: {} } });
    stream.send({ observabilityMode: true, request: { case: 'responseHeaders', value: {} } });
    stream.halfClose();
    expect(await stream.over).toMatchObject({ code: 0 });
    expect(stream.unread).toBe(0);
  });

  it('is there a thousand times at once', async () => {
    const picker = await start();
    picker.placer.shut();
    const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }] });
    const streams = Array.from({ length: 1000 }, () => picker.envoy.open());
    const routing = streams.map((stream) => stream.request(chat({ body })));
    await waitUntil(() => picker.placer.waiting === 1000, { timeoutMs: 60_000, what: '1,000 requests that wait' });
    picker.placer.open();
    for (const routed of await Promise.all(routing)) expect(routed).toMatchObject({ kind: 'routed', body });
    expect(picker.metric('stator_endpoint_picker_streams ')).toEqual(['stator_endpoint_picker_streams 1000']);
    await Promise.all(streams.map((stream) => stream.respond(200, ['{}'])));
    for (const stream of streams) stream.halfClose();
    await Promise.all(streams.map(({ over }) => over));
    expect(picker.placer).toMatchObject({ placed: 1000, begun: 1000, released: 1000 });
    expect(picker.metric('stator_endpoint_picker_streams ')).toEqual(['stator_endpoint_picker_streams 0']);
    expect(picker.bodies.takenBytes).toBe(0);
  }, 120_000);
});

function completed({ lines }: Picker) {
  return lines.filter(({ message }) => message === 'request completed').map(({ fields }) => fields);
}
