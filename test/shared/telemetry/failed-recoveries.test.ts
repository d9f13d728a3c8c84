import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../shared/clock/index.ts';
import { Semaphore } from '../../../shared/concurrency/index.ts';
import { EmbeddedMetrics, MetricRegistry } from '../../../shared/telemetry/index.ts';
import { createRouterIndex } from '../../../shared/telemetry/metrics/router-index.ts';
import { RankFollower } from '../../../shared/worker-events/rank-follower.ts';
import type { RecoveryAnswer } from '../../../shared/worker-events/recovery.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

/** Time after which a recovery without an answer is given up, and some more. */
const GIVEN_UP_MS = 60_000;

describe('recoveries of cached blocks that an edge reports', () => {
  it('are those that were given up, each once', async () => {
    const clock = new VirtualClock();
    const registry = new MetricRegistry();
    const router = createRouterIndex(registry, { namespace: 'ns', routerId: '1' }, true);
    const lines: string[] = [];
    const metrics = new EmbeddedMetrics({
      source: { dimension: 'Service', name: 'edge' },
      nowMs: () => clock.wallMs(),
      totals: (metric, label) => registry.totalsBy(metric, label),
      write: (text) => lines.push(text),
    });
    const told = () => {
      metrics.flush();
      return lines.splice(0).map((line) => JSON.parse(line) as Record<string, unknown>);
    };
    let answer: () => Promise<RecoveryAnswer> = () => Promise.reject(new Error('no route to the worker'));
    const follower = new RankFollower({
      rank: { workerId: 'a1', dpRank: 0 },
      sink: { changed() {} },
      ...{ clock, random: seededRandom(1), slots: new Semaphore(16), observer: router, canRecover: true },
      defer: async () => {},
      query: () => answer(),
      onFailed: () => {},
    });
    follower.start();
    expect(told()).toEqual([]);
    await clock.advance(GIVEN_UP_MS);
    expect(told()).toMatchObject([{ Service: 'edge', FailedRecoveries: 1 }]);
    expect(told()).toEqual([]);
    follower.announced(3); // the worker lives, and its load says what it has published
    await clock.advance(GIVEN_UP_MS);
    expect(told()).toMatchObject([{ FailedRecoveries: 1 }]);
    answer = async () => ({ kind: 'dump', events: [], lastEventId: 4, publisherId: 'p' });
    follower.announced(4);
    await clock.advance(GIVEN_UP_MS);
    expect(follower.cursor).toBe(4);
    expect(told()).toEqual([]);
  });
});
