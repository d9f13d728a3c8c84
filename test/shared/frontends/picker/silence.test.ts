import { afterEach, describe, expect, it } from 'vitest';
import { BodySendMode } from '../../../../shared/grpc/index.ts';
import { waitUntil } from '../../../support/index.ts';
import { startPicker } from '../../../support/picker/picker-bed.ts';
import type { PlayedRequest, PlayedStream } from '../../../support/picker/played-envoy.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

type Picker = Awaited<ReturnType<typeof startPicker>>;
const opened: Picker[] = [];

const SILENCE_MS = 60_000;
/** Time that Node's HTTP server leaves a body. */
const BODY_MS = 300_000;

async function start() {
  const clock = new VirtualClock();
  const picker = await startPicker({ clock, silenceMsMax: SILENCE_MS });
  opened.push(picker);
  return { ...picker, clock };
}

afterEach(async () => {
  for (const each of opened.splice(0)) await each.close();
});

const BODY = JSON.stringify({ model: 'm', max_tokens: 4, messages: [{ role: 'user', content: 'hi' }] });

function ask(more: Partial<PlayedRequest> = {}): PlayedRequest {
  return { path: '/v1/chat/completions', headers: { 'content-type': 'application/json' }, body: BODY, ...more };
}

const NO_RESPONSE_BODY = { request: BodySendMode.FULL_DUPLEX_STREAMED, response: BodySendMode.NONE };

function silent(picker: Picker): number {
  const [line = ''] = picker.metric('stator_endpoint_picker_requests_total{outcome="silent"}');
  return Number(line.split(' ')[1]);
}

/** Points of a request after which a gateway falls silent. */
const POINTS: readonly (readonly [name: string, play: (stream: PlayedStream) => Promise<unknown>])[] = [
  ['the choice of a worker', (stream) => stream.request(ask())],
  [
    'the head of the answer',
    async (stream) => {
      await stream.request(ask());
      await stream.respondHead(200);
    },
  ],
  [
    'a part of the answer',
    async (stream) => {
      await stream.request(ask());
      await stream.respondHead(200);
      await stream.respondPart('data: {}\n\n', false);
    },
  ],
  [
    'the head of a streamed answer whose body it does not show',
    async (stream) => {
      await stream.request(ask({ modes: NO_RESPONSE_BODY }));
      await stream.respondHead(200);
    },
  ],
];

describe('a gateway that falls silent', () => {
  it.each(POINTS)('after %s holds no place and no stream', async (_, play) => {
    const picker = await start();
    const stream = picker.envoy.open();
    await play(stream);
    await picker.clock.advance(SILENCE_MS - 1);
    expect(picker.placer.released).toBe(0);
    await picker.clock.advance(1);
    expect(picker.placer.released).toBe(1);
    // A call that ends well lets Envoy go on with the request.
    expect(await stream.over).toMatchObject({ code: 0 });
    expect(silent(picker)).toBe(1);
    expect(picker.metric('stator_endpoint_picker_streams ')).toEqual(['stator_endpoint_picker_streams 0']);
    expect(picker.clock.pendingTimers).toBe(0);
  });

  it('holds its place as long as parts of the answer come', async () => {
    const picker = await start();
    const stream = picker.envoy.open();
    await stream.request(ask());
    await stream.respondHead(200);
    for (let part = 0; part < 5; part++) {
      await picker.clock.advance(SILENCE_MS - 1);
      await stream.respondPart('data: {}\n\n', false);
    }
    expect(picker.placer.released).toBe(0);
    await stream.respondPart('data: [DONE]\n\n', true);
    expect(picker.placer.released).toBe(1);
    expect(silent(picker)).toBe(0);
  });

  it('in the middle of the body gets 408, and no memory is held', async () => {
    const picker = await start();
    const stream = picker.envoy.open();
    stream.sendHead(ask());
    stream.sendBody(BODY.slice(0, 10), false);
    await waitUntil(() => picker.bodies.takenBytes > 0, { what: 'the first chunk' });
    await picker.clock.advance(BODY_MS);
    const { response } = await stream.next();
    expect(response).toMatchObject({ case: 'immediateResponse', value: { status: { code: 408 } } });
    expect(picker.bodies.takenBytes).toBe(0);
    expect(await stream.over).toMatchObject({ code: 0 });
    expect(picker.clock.pendingTimers).toBe(0);
  });

  it('before it names a request, or after the answer, holds no stream', async () => {
    const picker = await start();
    const [early, late] = [picker.envoy.open(), picker.envoy.open()];
    early.send({ observabilityMode: true, request: { case: 'requestHeaders', value: {} } });
    await late.request(ask());
    await late.respond(200, ['{}']);
    const open = (): unknown => picker.metric('stator_endpoint_picker_streams ')[0];
    await waitUntil(() => open() === 'stator_endpoint_picker_streams 2', { what: 'two streams' });
    await picker.clock.advance(2 * SILENCE_MS);
    expect(await Promise.all([early.over, late.over])).toMatchObject([{ code: 0 }, { code: 0 }]);
    expect(open()).toBe('stator_endpoint_picker_streams 0');
    expect(silent(picker)).toBe(0);
  });

  it('does not end a request that waits for a worker', async () => {
    const picker = await start();
    picker.placer.shut();
    const stream = picker.envoy.open();
    const routing = stream.request(ask());
    await waitUntil(() => picker.placer.waiting === 1, { what: 'a request that waits' });
    await picker.clock.advance(2 * BODY_MS);
    picker.placer.open();
    expect(await routing).toMatchObject({ kind: 'routed', body: BODY });
    expect(picker.placer).toMatchObject({ placed: 1, released: 0 });
  });
});
