import { describe, expect, it } from 'vitest';
import type { Scheduler } from '../../../../shared/scheduler/index.ts';
import { hashBlocks } from '../../../../shared/tokens/index.ts';
import { BLOCK, ownPrompt, RouterFleet, type Sent } from '../router-fleet.ts';

/** Three routers and two workers, each with a long prefill of the last router. */
async function busyFleet() {
  const fleet = new RouterFleet(3, { workers: ['a', 'b'] });
  const ahead = ['ahead0', 'ahead1'].map((id, at) => fleet.send(2, id, ownPrompt(6000 + at, 40_000)));
  await fleet.clock.advance(50);
  expect(new Set(ahead.map(({ decision }) => decision?.workerId)).size).toBe(2);
  return fleet;
}

/** A place in the queue of another router that never sends the request. */
function silentPlace(id: string, tokens: number) {
  const prompt = ownPrompt(9000, tokens);
  const { sequence: sequenceHashes } = hashBlocks(prompt, BLOCK);
  return { id: `9/${id}`, requestId: id, promptTokens: tokens, sequenceHashes, uncachedTokens: tokens, waitedMs: 0 };
}

/** Waits at router 0 with most of it cached on the busy worker a, before one with nothing cached. Then b is idle. */
async function sentToIdle(isOtherWaiting: boolean) {
  const fleet = new RouterFleet(3, { workers: ['a', 'b'] });
  const prefix = ownPrompt(8000, 18_000);
  const { local, sequence } = hashBlocks(prefix, BLOCK);
  const ahead = [0, 1].map((at) => fleet.send(2, `ahead${at}`, ownPrompt(6000 + at, 40_000)));
  await fleet.clock.advance(50);
  fleet.index.stored(0, 'device', undefined, sequence, local);
  const cached = fleet.send(0, 'cached', Uint32Array.of(...prefix, ...ownPrompt(1, 2400)));
  const short = fleet.send(0, 'short', ownPrompt(2, 9000));
  if (isOtherWaiting) fleet.send(1, 'long', ownPrompt(3, 39_000));
  await fleet.clock.advance(20);
  fleet.prefillDone(2, `ahead${ahead.findIndex(({ decision }) => decision?.workerId === 'b')}`);
  await fleet.clock.advance(40);
  return [cached, short].map(hasWorker);
}

const hasWorker = ({ decision }: Sent): boolean => decision !== undefined;

describe('requests that wait at several routers', () => {
  it('wait although there are more routers than workers', async () => {
    const fleet = await busyFleet();
    expect(fleet.send(0, 'r', ownPrompt(1)).ticket).toMatchObject({ isWaiting: true, position: 0 });
  });

  it('do not wait for each other if messages take longer than prefills', async () => {
    const fleet = new RouterFleet(3, { workers: ['a', 'b'], lagMs: 500 });
    const ahead = ['ahead0', 'ahead1'].map((id, at) => fleet.send(2, id, ownPrompt(6000 + at, 40_000)));
    expect(new Set(ahead.map(({ decision }) => decision?.workerId)).size).toBe(2);
    await fleet.clock.advance(510);
    expect(fleet.schedulers[0]?.activeRequests).toBe(2);
    expect(hasWorker(fleet.send(0, 'r', ownPrompt(1)))).toBe(true);
  });

  it('leave one for each worker with room, the shortest first, whichever router it waits at', async () => {
    const fleet = await busyFleet();
    const sent = [30_000, 20_000, 25_000, 10_000].map((tokens, at) =>
      fleet.send(at % 2, `r${at}`, ownPrompt(at, tokens)),
    );
    await fleet.clock.advance(50);
    expect(sent.some(hasWorker)).toBe(false);
    fleet.prefillDone(2, 'ahead0');
    await fleet.clock.advance(40);
    expect(sent.map(hasWorker)).toEqual([false, false, false, true]);
    fleet.prefillDone(2, 'ahead1');
    await fleet.clock.advance(40);
    expect(sent.map(hasWorker)).toEqual([false, true, false, true]);
    expect(sent[1]?.decision?.workerId).not.toBe(sent[3]?.decision?.workerId);
  });

  it('leave in an order that all routers know, the least to compute on any worker first', async () => {
    expect(await sentToIdle(true)).toEqual([true, false]);
    expect(await sentToIdle(false)).toEqual([false, true]); // a router that knows of no other compares the workers
  });

  it('leave in the order of their tiers', async () => {
    const fleet = await busyFleet();
    const long = fleet.send(0, 'long', ownPrompt(1, 9000), { strictPriority: 1 });
    const short = fleet.send(1, 'short', ownPrompt(2, 3000));
    await fleet.clock.advance(20);
    fleet.prefillDone(2, 'ahead0');
    await fleet.clock.advance(40);
    expect([long, short].map(hasWorker)).toEqual([true, false]);
  });

  it('wait if one arrives while a more urgent one waits elsewhere, even if a worker has just become idle', async () => {
    const fleet = await busyFleet();
    const short = fleet.send(0, 'short', ownPrompt(1, 3000));
    await fleet.clock.advance(20);
    fleet.schedulers[1]?.prefillDone('2/ahead0'); // this router hears it first
    const long = fleet.send(1, 'long', ownPrompt(2, 9000));
    expect(long.ticket.isWaiting).toBe(true);
    fleet.schedulers[0]?.prefillDone('2/ahead0');
    await fleet.clock.advance(40);
    expect([short, long].map(hasWorker)).toEqual([true, false]);
  });

  it('do not wait for one whose client has left', async () => {
    const fleet = await busyFleet();
    const short = fleet.send(0, 'short', ownPrompt(1, 3000));
    const long = fleet.send(1, 'long', ownPrompt(2, 9000));
    await fleet.clock.advance(20);
    fleet.leave(0, 'short', short);
    await fleet.clock.advance(20);
    fleet.prefillDone(2, 'ahead0');
    expect(fleet.schedulers[1]?.activeRequests).toBe(2);
    await fleet.clock.advance(20);
    expect(hasWorker(long)).toBe(true);
  });

  it('wait for one that its router does not send only as long as its message may take', async () => {
    const fleet = await busyFleet();
    const scheduler = fleet.schedulers[0] as Scheduler;
    const own = fleet.send(0, 'own', ownPrompt(2, 9000));
    scheduler.heardWaiting(silentPlace('silent', 3000));
    fleet.prefillDone(2, 'ahead0');
    await fleet.clock.advance(10);
    expect(scheduler.activeRequests).toBe(3); // as if it had been sent
    expect(own.ticket.position).toBe(0);
    await fleet.clock.advance(40);
    expect(hasWorker(own)).toBe(true);
    expect(scheduler.activeRequests).toBe(3);
  });

  it('leave for the worker that another one was expected at, if that went elsewhere', async () => {
    const fleet = await busyFleet();
    const scheduler = fleet.schedulers[0] as Scheduler;
    const own = fleet.send(0, 'own', ownPrompt(2, 9000));
    const place = silentPlace('other', 3000);
    scheduler.heardWaiting(place);
    scheduler.prefillDone('2/ahead0');
    expect(own.ticket.position).toBe(0);
    const idle = scheduler.loads().find(({ activeRequests }) => activeRequests === 2)?.workerId;
    const { id: requestId, promptTokens, sequenceHashes: sequence, uncachedTokens } = place;
    const hashes = { local: new Uint32Array(0), sequence };
    const workerId = idle === 'a' ? 'b' : 'a';
    scheduler.book({ requestId, workerId, dpRank: 0, promptTokens, uncachedTokens, hashes });
    expect(own.ticket.position).toBe(0); // the next message may say that the other worker is taken, too
    fleet.arm(scheduler);
    await fleet.clock.advance(1);
    expect(own.booked).toBe(idle);
  });
});
