import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../shared/clock/index.ts';
import { KvRouter } from '../../../shared/scheduler/index.ts';
import { kvRouterConfig } from '../../../shared/scheduler/kv-config.ts';
import { choose } from '../../support/router/choose.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const WORKER = { id: 'a', dataParallelStartRank: 0, dataParallelSize: 1, deviceType: undefined, taints: [] };
const POOL = { key: 'm', role: 'aggregated', blockSizeTokens: 16 } as const;
const REQUEST = {
  id: 'r',
  pool: POOL,
  routing: {},
  override: undefined,
  tokenIds: undefined,
  excluded: new Set<string>(),
};

async function reserve() {
  const clock = new VirtualClock();
  const seen: unknown[] = [];
  const tell =
    (what: string) =>
    (...values: unknown[]) =>
      void seen.push([what, ...values]);
  const pool = { received: tell('asked'), decided: () => {}, pending: () => {}, backpressure: () => {} };
  const requests = {
    hashed: () => {},
    firstToken: tell('first'),
    tokens: tell('tokens'),
    ended: tell('ended'),
  };
  const router = new KvRouter({
    config: kvRouterConfig(),
    clock,
    random: seededRandom(1),
    observer: { pool: () => pool, requests },
  });
  const reservation = await choose(router, REQUEST, [WORKER]);
  return { clock, seen, reservation };
}

describe('a metered request', () => {
  it('tells its first token, the gaps after it, and its end', async () => {
    const { clock, seen, reservation } = await reserve();
    await clock.advance(40);
    reservation.prefillDone();
    reservation.produced(3); // all of them are the first
    await clock.advance(10);
    reservation.produced(5);
    reservation.release();
    reservation.release();
    expect(seen).toEqual([
      ['asked', 'default'],
      ['first', 40],
      ['tokens', 10, 2],
      ['ended', 5],
    ]);
  });

  it('that never had a token only ends', async () => {
    const { seen, reservation } = await reserve();
    reservation.release();
    expect(seen).toEqual([
      ['asked', 'default'],
      ['ended', 0],
    ]);
  });
});
