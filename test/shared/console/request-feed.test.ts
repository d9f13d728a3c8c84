import { describe, expect, it } from 'vitest';
import { RequestFeed } from '../../../shared/console/request-feed.ts';
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

function bed(filter = {}, kept = 1000) {
  const { console } = openConsoleBed(new VirtualClock(), kept);
  const feed = new RequestFeed(console.log, filter);
  const begin = (model = 'm') => {
    const trace = console.log.began({ endpoint: 'chat', xRequestId: 'x', key: undefined, receivedMs: 0 });
    trace.named(model);
    return trace;
  };
  return { feed, begin, beginMany: (count: number) => Array.from({ length: count }, () => begin()) };
}

describe('the requests that a viewer gets', () => {
  it('come once for each change, and again only after another one', () => {
    const { feed, begin, beginMany } = bed({ model: 'm' });
    const trace = begin();
    begin('other');
    expect(feed.whole().requests).toMatchObject([{ number: 0, status: null }]);
    expect(feed.changes()).toBeUndefined();
    trace.ended(GOOD);
    expect(feed.changes()?.requests).toMatchObject([{ number: 0, status: 200 }]);
    expect(feed.changes()).toBeUndefined();
    beginMany(130);
    expect(feed.changes()).toMatchObject({ left_out: 30 });
  });

  it('end for the viewer however many others come meanwhile', () => {
    const { feed, beginMany } = bed();
    const first = beginMany(3);
    feed.whole();
    const second = beginMany(200);
    const sent = feed.changes()?.requests.map(({ number }) => number) ?? [];
    expect(sent).toHaveLength(100);
    for (const each of [...first, ...second]) each.ended(GOOD);
    beginMany(500);
    const ended = feed.changes()?.requests.filter(({ status }) => status === 200);
    expect(ended?.map(({ number }) => number)).toEqual([...sent, 2, 1, 0]);
  });

  it('end for the viewer although the frontend has forgotten them since', () => {
    const { feed, beginMany } = bed({}, 10);
    const [one] = beginMany(1);
    feed.whole();
    one?.ended(GOOD);
    for (const each of beginMany(20)) each.ended(GOOD);
    expect(feed.changes()?.requests.at(-1)).toMatchObject({ number: 0, status: 200 });
  });

  it('say how many new ones are left out, each once', () => {
    const { feed, beginMany } = bed();
    feed.whole();
    const many = beginMany(150);
    expect(feed.changes()?.left_out).toBe(50);
    for (const each of many) each.ended(GOOD);
    expect(feed.changes()?.left_out).toBe(0);
  });

  it('end for the viewer also in a list of running ones', () => {
    const { feed, begin } = bed({ outcome: 'running' });
    const trace = begin();
    feed.whole();
    trace.ended(GOOD);
    expect(feed.changes()?.requests).toMatchObject([{ number: 0, status: 200 }]);
  });
});
