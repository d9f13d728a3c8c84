import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RankTable } from '../../../shared/block-index/index.ts';
import { seededRandom } from '../../../shared/clock/index.ts';
import type { FleetLoads } from '../../../shared/discovery/index.ts';
import { UnattributedLoad } from '../../../shared/router-state/index.ts';
import { Scheduler } from '../../../shared/scheduler/index.ts';
import { kvRouterConfig } from '../../../shared/scheduler/kv-config.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const SECOND_MS = 1000;
const PROMPT_TOKENS = 160;

/** A router of one worker, which knows its own requests, and those of others from what the worker says. */
class Router {
  readonly scheduler;
  readonly #unattributed: UnattributedLoad;
  readonly #clock: VirtualClock;

  constructor(clock: VirtualClock) {
    this.#clock = clock;
    this.scheduler = new Scheduler({
      config: kvRouterConfig({ queueThreshold: undefined }),
      blockSizeTokens: 16,
      ranks: new RankTable(),
      index: undefined,
      clock,
      random: seededRandom(1),
    });
    const facts = { dataParallelStartRank: 0, dataParallelSize: 1, taints: [] };
    this.scheduler.setWorkers([{ id: 'a', ...facts, totalKvBlocks: undefined, maxNumBatchedTokens: undefined }]);
    this.#unattributed = new UnattributedLoad(this.scheduler);
  }

  send(id: string): void {
    this.scheduler.book({
      requestId: id,
      workerId: 'a',
      dpRank: 0,
      promptTokens: PROMPT_TOKENS,
      hashes: undefined,
      uncachedTokens: PROMPT_TOKENS,
    });
    this.#unattributed.booked('a', 0);
  }

  over(id: string): void {
    this.scheduler.free(id);
  }

  /** Hears each second what the worker said `ageMs` before. */
  follow(worker: Worker, ageMs: () => number): void {
    this.#clock.every(SECOND_MS, () => {
      this.#unattributed.tick();
      this.#unattributed.observe(worker.saidAt(this.#clock.nowMs() - ageMs()));
    });
  }

  get requests(): number {
    return this.scheduler.loads()[0]?.activeRequests ?? 0;
  }

  get ofOthers(): number {
    return this.#unattributed.requests;
  }
}

/** A worker that remembers what it carried when. */
class Worker {
  readonly running = new Set<string>();
  readonly #clock: VirtualClock;
  readonly #history: { readonly atMs: number; readonly requests: number }[] = [{ atMs: 0, requests: 0 }];

  constructor(clock: VirtualClock) {
    this.#clock = clock;
  }

  note(): void {
    this.#history.push({ atMs: this.#clock.nowMs(), requests: this.running.size });
  }

  saidAt(atMs: number): FleetLoads {
    const requests = this.#history.findLast((entry) => entry.atMs <= atMs)?.requests ?? 0;
    const load = { dpRank: 0, requests, decodeBlocks: 10 * requests, prefillTokens: PROMPT_TOKENS * requests };
    return new Map([['a', { ranks: [load], isDraining: false }]]);
  }
}

function bed(ageMs: () => number = () => 0) {
  const clock = new VirtualClock();
  const worker = new Worker(clock);
  const routers = [new Router(clock), new Router(clock)] as const;
  for (const router of routers) router.follow(worker, ageMs);
  const send = (router: Router, id: string): void => {
    router.send(id);
    worker.running.add(id);
    worker.note();
  };
  const end = (router: Router, id: string): void => {
    router.over(id);
    worker.running.delete(id);
    worker.note();
  };
  return { clock, worker, routers, send, end };
}

describe('load that no router reported', () => {
  it('is seen with the next report, and gone with the one after its end', async () => {
    const { clock, routers, send, end } = bed();
    const [ours, theirs] = routers;
    send(ours, 'own');
    for (let at = 0; at < 3; at++) send(theirs, `theirs ${at}`);
    await clock.advance(SECOND_MS);
    expect([ours.requests, ours.ofOthers]).toEqual([4, 3]);
    expect(ours.scheduler.loads()).toMatchObject([{ activePrefillTokens: 4 * PROMPT_TOKENS }]);
    end(theirs, 'theirs 0');
    await clock.advance(SECOND_MS);
    expect([ours.requests, ours.ofOthers]).toEqual([3, 2]);
  });

  it('is zero while all requests are the router’s own, whatever they do and however old reports are up to 3 s', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer(), async (seed) => {
        const chance = seededRandom(seed);
        const { clock, worker, routers, send, end } = bed(() => chance.below(3000));
        const [ours] = routers;
        for (let step = 0; step < 60; step++) {
          if (chance.below(2) === 0) send(ours, `r${step}`);
          else end(ours, [...worker.running][chance.below(Math.max(1, worker.running.size))] ?? '');
          await clock.advance(chance.below(1500));
          expect(ours.ofOthers).toBe(0);
        }
      }),
      { numRuns: 30 },
    );
  });

  it('makes routers that hear nothing of each other agree with the worker once it is quiet', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer(), async (seed) => {
        const chance = seededRandom(seed);
        const { clock, worker, routers, send, end } = bed(() => chance.below(3000));
        const owners = new Map<string, Router>();
        for (let step = 0; step < 60; step++) {
          const router = routers[chance.below(2)] as Router;
          const [id, owner] = [...owners][chance.below(Math.max(1, owners.size))] ?? ['', router];
          if (chance.below(2) === 0) {
            send(router, `r${step}`);
            owners.set(`r${step}`, router);
          } else if (owners.delete(id)) end(owner, id);
          await clock.advance(chance.below(1500));
        }
        await clock.advance(8000);
        for (const router of routers) expect(router.requests).toBe(worker.running.size);
      }),
      { numRuns: 30 },
    );
  });

  it('goes with the worker, and with what the worker says', async () => {
    const { clock, routers, send } = bed();
    const [ours, theirs] = routers;
    send(theirs, 'theirs');
    await clock.advance(SECOND_MS);
    expect(ours.requests).toBe(1);
    ours.scheduler.setWorkers([]);
    await clock.advance(SECOND_MS);
    expect(ours.ofOthers).toBe(0);
    const silent = new UnattributedLoad(theirs.scheduler);
    silent.observe(new Map());
    expect(silent.requests).toBe(0);
  });
});
