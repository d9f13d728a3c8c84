import { describe, expect, it } from 'vitest';
import { ServeError } from '../../../../shared/errors/index.ts';
import type { PipelineObserver } from '../../../../shared/pipeline/index.ts';
import { RequestTimes } from '../../../../shared/pipeline/run/request-times.ts';
import { RecordingSink, request } from '../fixtures.ts';

type Told = Parameters<NonNullable<PipelineObserver['timed']>>[0];

function start(observer: PipelineObserver = {}, left = new AbortController()) {
  let nowMs = 0;
  const pass = (ms: number): void => {
    nowMs += ms;
  };
  const clock = { nowMs: () => nowMs, pass };
  const told: Told[] = [];
  let over = 0;
  const times = new RequestTimes({
    clock,
    observer: { ...observer, timed: (record) => told.push(record) },
    request: request(),
    active: 2,
    signal: left.signal,
    onOver: () => over++,
  });
  /** Lets the time pass while the sink encodes. */
  class SlowSink extends RecordingSink {
    override text(choice: number, text: string): void {
      clock.pass(3);
      super.text(choice, text);
    }
  }
  return { clock, told, left, times, sink: times.listen(new SlowSink()), overs: () => over };
}

const USAGE = { promptTokens: 1, completionTokens: 2 };

describe('the times of a request', () => {
  it('are those of each step, and no time counts in two of them', () => {
    const { clock, told, times, sink, overs } = start();
    const { observer } = times;
    observer.template?.(1);
    observer.tokenize?.(2);
    observer.stage?.('preprocess', 4);
    clock.pass(10);
    observer.stage?.('route', 5);
    observer.stage?.('transport_roundtrip', 6);
    for (const text of ['a', 'b']) {
      times.answer(() => {
        clock.pass(20);
        sink.text(0, text, 1);
      });
    }
    observer.detokenize?.(15, 2);
    sink.end(USAGE, true);
    const record = {
      ...{ requestId: 'r1', model: 'letters', outcome: 'end', active: 2, tokens: 2 },
      ...{ templateMs: 1, tokenizeMs: 2, preprocessMs: 4, routeMs: 5, transportMs: 6, firstOutputMs: 30 },
      ...{ detokenizeMs: 15, parseMs: 25, encodeMs: 6, totalMs: 56 },
    };
    expect(told).toEqual([record]);
    expect(overs()).toBe(1);
  });

  it('come once, whichever way the request ends first', () => {
    const ends: readonly [Told['outcome'], (bed: ReturnType<typeof start>) => void][] = [
      ['end', ({ sink }) => sink.end(USAGE, true)],
      ['failed', ({ sink }) => sink.fail(new ServeError('internal_error', 'x'))],
      ['left', ({ left }) => left.abort()],
      ['end', ({ sink }) => sink.routed({ prefillWorkerId: 'a', decodeWorkerId: 'a' }, [])],
    ];
    for (const [outcome, end] of ends) {
      const bed = start();
      end(bed);
      bed.left.abort();
      expect([bed.told.map((each) => each.outcome), bed.overs()]).toEqual([[outcome], 1]);
      expect(bed.told[0]).toMatchObject({ routeMs: undefined, parseMs: undefined });
    }
  });

  it('come at once if the client has left before', () => {
    const left = new AbortController();
    left.abort();
    const { told, overs } = start({}, left);
    expect([told.map(({ outcome }) => outcome), overs()]).toEqual([['left'], 1]);
  });

  it('reach the observer of the pipeline too', () => {
    const seen: unknown[] = [];
    const { times } = start({
      stage: (stage, ms) => seen.push([stage, ms]),
      template: (ms) => seen.push(ms),
      detokenize: (ms, tokens) => seen.push([ms, tokens]),
    });
    times.observer.stage?.('route', 1);
    times.observer.template?.(2);
    times.observer.detokenize?.(3, 4);
    expect(seen).toEqual([['route', 1], 2, [3, 4]]);
  });
});
