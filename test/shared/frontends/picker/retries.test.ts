import { afterEach, describe, expect, it } from 'vitest';
import { waitUntil } from '../../../support/index.ts';
import { startPicker } from '../../../support/picker/picker-bed.ts';
import type { PlayedRequest } from '../../../support/picker/played-envoy.ts';

type Picker = Awaited<ReturnType<typeof startPicker>>;
const opened: Picker[] = [];

async function start(): Promise<Picker> {
  const picker = await startPicker();
  opened.push(picker);
  return picker;
}

afterEach(async () => {
  for (const each of opened.splice(0)) await each.close();
});

function ask(headers: Readonly<Record<string, string>>, text = 'hi'): PlayedRequest {
  const body = JSON.stringify({ model: 'm', max_tokens: 4, messages: [{ role: 'user', content: text }] });
  return { path: '/v1/chat/completions', headers: { 'content-type': 'application/json', ...headers }, body };
}

const ID = { 'x-request-id': 'r-1' };
/** Headers of the next try of a request. */
const AGAIN = { ...ID, 'x-envoy-attempt-count': '2' };

describe('a request that says it is sent again, with the same id', () => {
  it('frees the place of the first try, whose stream is still open', async () => {
    const picker = await start();
    const [first, second] = [picker.envoy.open(), picker.envoy.open()];
    await first.request(ask(ID));
    await second.request(ask(AGAIN));
    expect(picker.placer).toMatchObject({ placed: 2, released: 1 });
    expect(picker.metric('stator_endpoint_picker_sent_again_total ')).toEqual([
      'stator_endpoint_picker_sent_again_total 1',
    ]);
    first.cancel();
    await first.over;
    await second.respond(200, ['{}']);
    expect(picker.placer).toMatchObject({ placed: 2, released: 2 });
  });

  it('frees the place of one of two tries that waited for a worker at the same time', async () => {
    const picker = await start();
    picker.placer.shut();
    const routing = [picker.envoy.open().request(ask(ID)), picker.envoy.open().request(ask(AGAIN))];
    await waitUntil(() => picker.placer.waiting === 2, { what: 'two requests that wait' });
    picker.placer.open();
    for (const routed of await Promise.all(routing)) expect(routed).toMatchObject({ kind: 'routed' });
    expect(picker.placer).toMatchObject({ placed: 2, released: 1 });
    expect(picker.metric('stator_endpoint_picker_sent_again_total ')).toEqual([
      'stator_endpoint_picker_sent_again_total 1',
    ]);
  });

  it('frees each earlier try once, and keeps the last', async () => {
    const picker = await start();
    for (let tries = 1; tries <= 4; tries++) {
      await picker.envoy.open().request(ask({ ...ID, 'x-envoy-attempt-count': `${tries}` }));
      expect(picker.placer).toMatchObject({ placed: tries, released: tries - 1 });
    }
  });

  it.each([
    ['another id', ask({ ...AGAIN, 'x-request-id': 'r-2' })],
    ['no id', ask({ 'x-envoy-attempt-count': '2' })],
    ['another body', ask(AGAIN, 'ho')],
    ['other credentials', ask({ ...AGAIN, authorization: 'Bearer other' })],
    ['no count of tries', ask(ID)],
    ['the count of a first try', ask({ ...ID, 'x-envoy-attempt-count': '1', 'x-stainless-retry-count': '0' })],
    ['a count that is no number', ask({ ...ID, 'x-envoy-attempt-count': 'two' })],
  ])('is another request if it has %s', async (_, other) => {
    const picker = await start();
    await picker.envoy.open().request(ask(ID));
    await picker.envoy.open().request(other);
    expect(picker.placer).toMatchObject({ placed: 2, released: 0 });
  });

  it('is another request if the first one is being answered', async () => {
    const picker = await start();
    const first = picker.envoy.open();
    await first.request(ask(ID));
    await first.respondHead(200);
    await picker.envoy.open().request(ask(AGAIN));
    expect(picker.placer).toMatchObject({ placed: 2, released: 0 });
  });

  it('frees one place of several requests with one id, as of a load test', async () => {
    const picker = await start();
    const streams = [1, 2, 3].map(() => picker.envoy.open());
    for (const stream of streams) await stream.request(ask(ID));
    expect(picker.placer).toMatchObject({ placed: 3, released: 0 });
    await picker.envoy.open().request(ask({ ...ID, 'x-stainless-retry-count': '1' }));
    expect(picker.placer).toMatchObject({ placed: 4, released: 1 });
    for (const stream of streams) await stream.respond(200, ['{}']);
    expect(picker.placer).toMatchObject({ placed: 4, released: 3 });
  });
});
