import { describe, expect, it } from 'vitest';
import type { Scheduler, SchedulingRequest } from '../../../shared/scheduler/index.ts';
import { hashBlocks } from '../../../shared/tokens/index.ts';
import { promptTokens, worker } from './pool.ts';
import { BLOCK, ownPrompt, RouterFleet, type Sent, WORKERS } from './router-fleet.ts';

const workersOf = (sent: readonly Sent[]): (string | undefined)[] => sent.map(({ decision }) => decision?.workerId);

describe('decisions of several routers in one instant', () => {
  it('go to different workers, one to each, although no router could see the others', async () => {
    const fleet = new RouterFleet(8);
    await fleet.warmUp();
    const sent = fleet.schedulers.map((_, router) => fleet.send(router, `r${router}`, ownPrompt(5000 + router)));
    expect(sent.every(({ ticket }) => ticket.isWaiting)).toBe(true);
    await fleet.clock.advance(50);
    expect(new Set(workersOf(sent)).size).toBe(8);
    expect(sent.some(({ ticket }) => ticket.isWaiting)).toBe(false);
  });

  it('give a cached prompt to its worker, and the others to the rest, as one router would', async () => {
    const fleet = new RouterFleet(8);
    await fleet.warmUp();
    const cached = ownPrompt(7000, 8000); // the longest one is decided first
    const { local, sequence } = hashBlocks(cached, BLOCK);
    fleet.index.stored(3, 'device', undefined, sequence, local);
    const sent = fleet.schedulers.map((_, router) =>
      fleet.send(router, `r${router}`, router === 0 ? cached : ownPrompt(5000 + router)),
    );
    await fleet.clock.advance(50);
    expect(sent[0]?.decision?.workerId).toBe('d');
    expect(new Set(workersOf(sent)).size).toBe(8);
  });

  it('count several requests of one router like those of several', async () => {
    const fleet = new RouterFleet(4);
    await fleet.warmUp();
    const sent = [0, 1, 2, 3, 0, 1, 2, 3].map((router, at) => fleet.send(router, `r${at}`, ownPrompt(5000 + at)));
    await fleet.clock.advance(50);
    expect(new Set(workersOf(sent)).size).toBe(8);
  });

  it('leave every router with the same load once all have been told', async () => {
    const fleet = new RouterFleet(8);
    await fleet.warmUp();
    const sent = fleet.schedulers.map((_, router) => fleet.send(router, `r${router}`, ownPrompt(5000 + router)));
    await fleet.clock.advance(100);
    for (const scheduler of fleet.schedulers) {
      expect(scheduler.loads().map(({ activeRequests }) => activeRequests)).toEqual(WORKERS.map(() => 1));
    }
    expect(sent.map(({ booked }) => booked)).toEqual(workersOf(sent));
  });

  it('are made again for the first long prompts, before any router knows how the others decide', async () => {
    const fleet = new RouterFleet(8);
    const sent = fleet.schedulers.map((_, router) => fleet.send(router, `r${router}`, ownPrompt(router)));
    await fleet.clock.advance(50);
    expect(new Set(workersOf(sent)).size).toBe(8);
    const short = new RouterFleet(8).send(0, 's', ownPrompt(100, 160));
    expect(short.decision).toBeDefined();
  });

  it('go to different workers in a pool that counts no blocks, too, such as one for prefill', async () => {
    const fleet = new RouterFleet(8, { config: { trackActiveBlocks: false } });
    await fleet.warmUp();
    const sent = fleet.schedulers.map((_, router) => fleet.send(router, `r${router}`, ownPrompt(5000 + router)));
    await fleet.clock.advance(50);
    expect(new Set(workersOf(sent)).size).toBe(8);
    const looks = fleet.schedulers.map((scheduler, router) => scheduler.explained(`r${router}`)?.second_look);
    expect(looks.map((look) => look?.before).sort()).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  });

  it('go to the worker with the fewest blocks among equals, if that is set', async () => {
    for (const id of ['r0', 'r1', 'r2', 'r3']) {
      const fleet = new RouterFleet(2, { workers: ['a', 'b', 'c'], config: { tieBreak: 'fewest-blocks' } });
      for (const rank of [0, 1]) {
        const { local, sequence } = hashBlocks(ownPrompt(7000 + rank), BLOCK);
        fleet.index.stored(rank, 'device', undefined, sequence, local);
      }
      const sent = fleet.send(0, id, ownPrompt(0));
      expect(sent.ticket.isWaiting).toBe(true);
      await fleet.clock.advance(50);
      expect(sent.decision?.workerId).toBe('c');
    }
  });

  it('leave a request of another router where that router has sent it meanwhile', async () => {
    const fleet = new RouterFleet(2, { lagMs: 30 });
    const scheduler = fleet.schedulers[0] as Scheduler;
    expect(fleet.send(0, 'r', ownPrompt(0, 8000)).ticket.isWaiting).toBe(true);
    const hashes = hashBlocks(ownPrompt(1, 8000), BLOCK);
    const booking = { requestId: '1/x', dpRank: 0, promptTokens: 8000, hashes, uncachedTokens: 8000 };
    scheduler.book({ ...booking, workerId: 'a', provisionalId: 'x' });
    scheduler.free('1/x'); // its router heard of others sooner than this one
    scheduler.book({ ...booking, workerId: 'h' });
    await fleet.clock.advance(50);
    scheduler.free('r');
    const busy = scheduler.loads().filter(({ activeRequests }) => activeRequests > 0);
    expect(busy.map(({ workerId }) => workerId)).toEqual(['h']);
  });

  it('are made again if all prefer the worker that has a prefix cached, even if there are few', async () => {
    const fleet = new RouterFleet(2, { lagMs: 30 });
    const prefix = promptTokens(40_000, 9000);
    const { local, sequence } = hashBlocks(prefix, BLOCK);
    fleet.index.stored(0, 'device', undefined, sequence, local);
    const sharing = (seed: number) => Uint32Array.of(...prefix, ...ownPrompt(seed));
    await fleet.warmUp(sharing);
    expect(fleet.send(0, 'r', sharing(5000)).ticket.isWaiting).toBe(true);
  });

  it('are made in several turns of the event loop if there are many workers', async () => {
    const fleet = new RouterFleet(2, { workers: Array.from({ length: 1024 }, (_, at) => `w${at}`) });
    const scheduler = fleet.schedulers[0] as Scheduler;
    let decided = 0;
    for (let at = 0; at < 12; at++) {
      const hashes = hashBlocks(ownPrompt(at), BLOCK);
      const outcome = { booked: () => {}, decided: () => void decided++, rejected: () => expect.unreachable() };
      scheduler.submit({ id: `r${at}`, promptTokens: 4000, hashes }, outcome);
    }
    await fleet.clock.advance(10);
    scheduler.tick();
    expect(decided).toBe(8);
    expect(scheduler.nextTickMs).toBeLessThanOrEqual(fleet.clock.nowMs());
    scheduler.tick();
    expect(decided).toBe(12);
  });

  it('say in their explanation that they were made again, and from what', async () => {
    const fleet = new RouterFleet(8);
    await fleet.warmUp();
    for (const router of fleet.schedulers.keys()) fleet.send(router, `r${router}`, ownPrompt(5000 + router));
    await fleet.clock.advance(50);
    const looks = fleet.schedulers.map((scheduler, router) => scheduler.explained(`r${router}`)?.second_look);
    expect(looks.map((look) => look?.before).sort()).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    for (const look of looks) expect(look).toMatchObject({ held_ms: 6.5, first: { dp_rank: 0 } });
  });
});

describe('a decision is made at once', () => {
  const cases: readonly (readonly [string, RouterFleet, Partial<SchedulingRequest>])[] = [
    ['if the router hears of no other', new RouterFleet(8, { isTold: false }), {}],
    ['if there is only one router', new RouterFleet(1), {}],
    ['if messages take longer than a collision costs', new RouterFleet(8, { lagMs: 240 }), {}],
    ['if it would be held for more than 60 ms', new RouterFleet(8, { lagMs: 55 }), {}],
    ['if there is only one worker', new RouterFleet(8, { workers: ['a'] }), {}],
    ['if the request names its worker', new RouterFleet(8), { pinned: { workerId: 'b' } }],
    ['if only some workers may take it', new RouterFleet(8), { allowedWorkers: new Set(['b', 'c']) }],
    ['if a worker has failed it', new RouterFleet(8), { excludedWorkers: new Set(['b']) }],
  ];

  it.each(cases)('%s', async (_, fleet, more) => {
    await fleet.warmUp();
    const sent = fleet.send(0, 'r', ownPrompt(5000), more);
    expect(sent.decision).toBeDefined();
    expect(sent.ticket.isWaiting).toBe(false);
  });

  it('if the others decide at other times', async () => {
    const fleet = new RouterFleet(8);
    for (let at = 0; at < 160; at++) {
      fleet.send(at % 8, `w${at}`, ownPrompt(at));
      await fleet.clock.advance(20);
      if (at >= 4) fleet.end((at - 4) % 8, `w${at - 4}`);
    }
    expect(fleet.send(0, 'r', ownPrompt(5000)).decision).toBeDefined();
  });
});

describe('a request that is held for its second decision', () => {
  async function held(more: Partial<SchedulingRequest> = {}) {
    const fleet = new RouterFleet(8);
    await fleet.warmUp();
    const nowMs = fleet.clock.nowMs();
    const sent = fleet.send(0, 'r', ownPrompt(5000), {
      ...(more.deadlineMs && { deadlineMs: nowMs + more.deadlineMs }),
    });
    expect(sent.ticket.isWaiting).toBe(true);
    return { fleet, sent };
  }

  it('leaves no booking in any router if its client leaves', async () => {
    const { fleet, sent } = await held();
    sent.ticket.cancel();
    await fleet.clock.advance(50);
    expect(sent).toMatchObject({ booked: undefined });
    expect(sent.decision).toBeUndefined();
    expect(fleet.schedulers.map(({ activeRequests }) => activeRequests)).toEqual(fleet.schedulers.map(() => 0));
  });

  it('leaves no booking, too, if it had waited in the queue before', async () => {
    const fleet = new RouterFleet(2, { workers: ['a', 'b', 'c'] });
    await fleet.warmUp();
    const ahead = [0, 1, 2].map((at) => fleet.send(1, `ahead${at}`, ownPrompt(6000 + at, 40_000)));
    await fleet.clock.advance(50);
    const sent = fleet.send(0, 'r', ownPrompt(5000));
    expect(sent.ticket.position).toBe(0);
    fleet.schedulers[0]?.free('1/ahead0');
    expect(sent).toMatchObject({ booked: ahead[0]?.booked });
    expect(sent.ticket).toMatchObject({ isWaiting: true, position: undefined });
    sent.ticket.cancel();
    await fleet.clock.advance(50);
    expect(sent.decision).toBeUndefined();
    expect(fleet.schedulers.map(({ activeRequests }) => activeRequests)).toEqual([2, 3]);
  });

  it('fails if its deadline passes, and leaves no booking', async () => {
    const { fleet, sent } = await held({ deadlineMs: 3 });
    await fleet.clock.advance(50);
    expect(sent.error).toBe('deadline_exceeded');
    expect(fleet.schedulers.map(({ activeRequests }) => activeRequests)).toEqual(fleet.schedulers.map(() => 0));
  });

  it('fails when the router closes, and leaves no booking', async () => {
    const { fleet, sent } = await held();
    fleet.schedulers[0]?.close();
    await fleet.clock.advance(50);
    expect(sent.error).toBeDefined();
    expect(fleet.schedulers.map(({ activeRequests }) => activeRequests)).toEqual(fleet.schedulers.map(() => 0));
  });

  it('goes to another worker if its first one has left meanwhile', async () => {
    const { fleet, sent } = await held();
    const left = sent.booked;
    for (const scheduler of fleet.schedulers) {
      scheduler.setWorkers(WORKERS.filter((id) => id !== left).map((id) => worker(id)));
    }
    await fleet.clock.advance(50);
    expect(sent.decision?.workerId).toBeDefined();
    expect(sent.decision?.workerId).not.toBe(left);
  });

  it('stays without a booking after its worker has left, while earlier ones are decided', async () => {
    const fleet = new RouterFleet(2, { lagMs: 30 });
    const scheduler = fleet.schedulers[0] as Scheduler;
    const earlier = fleet.send(0, 'earlier', ownPrompt(0, 8000));
    await fleet.clock.advance(10);
    const sent = fleet.send(0, 'r', ownPrompt(1, 8000));
    scheduler.setWorkers(WORKERS.filter((id) => id !== sent.booked).map((id) => worker(id)));
    await fleet.clock.advance(25);
    expect(earlier.decision).toBeDefined();
    expect(sent.ticket.isWaiting).toBe(true);
    expect(scheduler.activeRequests).toBe(1);
  });
});
