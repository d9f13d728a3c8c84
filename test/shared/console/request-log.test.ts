import { describe, expect, it } from 'vitest';
import type { RequestEnding } from '../../../shared/console/watched-request.ts';
import { openConsoleBed } from '../../support/console-bed.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const GOOD: RequestEnding = {
  status: 200,
  error: undefined,
  worker: 'a1',
  promptTokens: 100,
  cachedTokens: 60,
  outputTokens: 11,
  ttftMs: 50,
  totalMs: 1050,
};
const UUID = '00000000-0000-4000-8000-00000000000';

const PRICES = [{ model: 'm', inputUsd: 2, outputUsd: 10, cachedUsd: 0.5 }];

function bed(kept = 1000, tokenPrices: typeof PRICES = []) {
  const clock = new VirtualClock();
  const { console, open } = openConsoleBed(clock, kept, { tokenPrices });
  const begin = (more: { id?: string; model?: string; key?: string } = {}) => {
    const { id, model = 'm', key } = more;
    const trace = console.log.began({ endpoint: 'chat', xRequestId: `x-${id ?? ''}`, key, receivedMs: clock.wallMs() });
    trace.named(model);
    if (id !== undefined) trace.identified(id);
    return trace;
  };
  const numbers = (filter = {}, before?: number) => open.log.page(filter, before).requests.map(({ number }) => number);
  return { clock, console, log: open.log, begin, numbers };
}

describe('the requests that a console remembers', () => {
  it('are those that run and the last that have ended, in pages', () => {
    const { begin, log, numbers } = bed(150);
    const running = [begin(), begin()];
    for (let at = 2; at < 1500; at++) {
      const trace = begin();
      if (at < 1499) trace.ended(GOOD);
    }
    const first = log.page({});
    const rows = first.requests.map((request) => request.row());
    expect(rows).toHaveLength(100);
    expect(rows[0]).toMatchObject({ number: 1499, status: null });
    expect(rows[1]).toMatchObject({ number: 1498, status: 200, output_tokens: 11 });
    expect(first.next).toBe(1400);
    expect(numbers({}, 1400)).toEqual([...Array.from({ length: 51 }, (_, at) => 1399 - at), 1, 0]);
    expect(log.page({}, 1400).next).toBeNull();
    running[0]?.ended(GOOD);
    expect(numbers({ outcome: 'running' })).toEqual([1499, 1]);
    expect(log.find('0')?.row()).toMatchObject({ number: 0, status: 200 });
  });

  it('cost what their tokens cost, once they have ended and if the price of their model is known', () => {
    const { begin, log } = bed(100, PRICES);
    const running = begin();
    begin().ended(GOOD);
    begin({ model: 'free' }).ended(GOOD);
    begin().ended({ ...GOOD, promptTokens: undefined, cachedTokens: undefined, outputTokens: undefined });
    const costs = () => log.page({}).requests.map((request) => request.row().cost_usd);
    expect(costs()).toEqual([null, null, (40 * 2 + 60 * 0.5 + 11 * 10) / 1_000_000, null]);
    expect(log.page({}).has_costs).toBe(true);
    running.ended({ ...GOOD, status: 503, error: 'overload', cachedTokens: undefined, outputTokens: undefined });
    expect(costs().at(-1)).toBe(0.0002);
    expect(bed().log.page({}).has_costs).toBe(false);
  });

  it('show the decoding of a request whose last token came with its first', () => {
    const { console, begin, log } = bed();
    const trace = begin({ id: `${UUID}6` });
    const attempt = { model: 'm', prefillWorkerId: undefined, dpRank: 0, promptTokens: 1, cachedTokens: 0, attempt: 1 };
    console.observer.sent({ ...attempt, requestId: `${UUID}6`, workerId: 'a1' });
    trace.ended({ ...GOOD, ttftMs: 50.04, totalMs: 50.04 });
    expect(
      log
        .find('0')!
        .detail()
        .stages.map(({ name }) => name),
    ).toEqual(['read', 'route', 'prefill', 'decode']);
  });

  it('are found by model, key, worker, state and a part of an id', () => {
    const { begin, numbers, log } = bed();
    begin({ id: `${UUID}1`, model: 'a', key: 'team' }).ended(GOOD);
    begin({ id: `${UUID}2`, model: 'b' }).ended({ ...GOOD, worker: 'b2', status: 503, error: 'overload' });
    begin({ id: `${UUID}3`, model: 'b' });
    expect(numbers({ model: 'b' })).toEqual([2, 1]);
    expect(numbers({ key: 'team' })).toEqual([0]);
    expect(numbers({ worker: 'b2' })).toEqual([1]);
    expect(numbers({ outcome: 'running' })).toEqual([2]);
    expect(numbers({ outcome: 'failed' })).toEqual([1]);
    expect(numbers({ outcome: 'succeeded' })).toEqual([0]);
    expect(numbers({ id: '000003' })).toEqual([2]);
    expect(log.find(`chatcmpl-${UUID}2`)?.number).toBe(1);
    expect(log.find('2')?.id).toBe(`${UUID}3`);
    expect(log.find('7')).toBeUndefined();
  });

  it('are found by an id of their client that is a number', () => {
    const { console, log } = bed();
    console.log.began({ endpoint: 'chat', xRequestId: '20261129', key: undefined, receivedMs: 0 });
    expect(log.find('20261129')?.number).toBe(0);
  });

  it.each([
    ['with dashes', `${UUID}5`],
    ['without dashes', `${UUID}5`.replaceAll('-', '')],
  ])('hear of all prompts of a batch whose id is a UUID %s', (_form, id) => {
    const { console, begin, log } = bed();
    const trace = begin({ id: `${id}-0` });
    const attempt = { model: 'm', prefillWorkerId: undefined, dpRank: 0, promptTokens: 1, cachedTokens: 0, attempt: 1 };
    for (let at = 0; at < 20; at++) console.observer.sent({ ...attempt, requestId: `${id}-${at}`, workerId: `w${at}` });
    const workers = log
      .find('0')!
      .detail()
      .attempts.map(({ worker }) => worker);
    expect(workers).toEqual(Array.from({ length: 16 }, (_, at) => `w${at}`));
    trace.ended(GOOD);
    console.observer.sent({ ...attempt, requestId: id, workerId: 'late' });
    expect(log.find('0')!.row().worker).toBe('a1');
    expect(log.find('0')!.detail().attempts).toHaveLength(16);
  });

  it('are counted by model while they run', () => {
    const { begin, log } = bed();
    const [one] = [begin({ model: 'a' }), begin({ model: 'a' }), begin({ model: 'b' })];
    expect([log.running(), log.running('a'), log.running('b'), log.running('c')]).toEqual([3, 2, 1, 0]);
    one?.ended(GOOD);
    expect([log.running(), log.running('a')]).toEqual([2, 1]);
  });

  it('have stages that the first token and the moves divide', async () => {
    const { clock, console, begin, log } = bed();
    const trace = begin({ id: `${UUID}4` });
    const { sent, moved } = console.observer;
    const attempt = { requestId: `${UUID}4-0`, model: 'm', prefillWorkerId: undefined, dpRank: 0 };
    await clock.advance(5);
    sent({ ...attempt, workerId: 'a1', promptTokens: 100, cachedTokens: 16, attempt: 1 });
    await clock.advance(500);
    moved({ requestId: `${UUID}4`, model: 'm', workerId: 'a1', reason: 'gone', outputTokens: 7 });
    sent({ ...attempt, workerId: 'b2', promptTokens: 107, cachedTokens: 0, attempt: 2 });
    await clock.advance(545);
    trace.ended({ ...GOOD, worker: 'b2' });
    const detail = log.find('0')!.detail();
    expect(detail.stages.map(({ name, worker, from_ms, to_ms }) => [name, worker, from_ms, to_ms])).toEqual([
      ['read', null, 0, 0],
      ['route', null, 0, 5],
      ['prefill', 'a1', 5, 50],
      ['decode', 'a1', 50, 505],
      ['decode', 'b2', 505, 1050],
    ]);
    expect(detail.moves).toEqual([{ at_ms: 505, from: 'a1', reason: 'gone', output_tokens: 7 }]);
    expect(detail.request).toMatchObject({ worker: 'b2', moves: 1, total_ms: 1050 });
  });
});
