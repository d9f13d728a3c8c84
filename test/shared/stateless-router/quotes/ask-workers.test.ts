import { describe, expect, it } from 'vitest';
import { workerError } from '../../../../shared/errors/index.ts';
import type { IncomingCall } from '../../../../shared/planes/index.ts';
import { AskingRig, asked, DEADLINE_MS } from './asking-rig.ts';

const FOUR = ['a', 'b', 'c', 'd'];

function isClaim({ body }: IncomingCall): boolean {
  return (body as { readonly claim?: unknown }).claim !== undefined;
}

describe('a request that asks workers', () => {
  it('asks only the worker that hashing names, if that has little to do', async () => {
    const rig = await AskingRig.open(FOUR);
    rig.worker('b').cachedTokens = [3000];
    rig.worker('c').cachedTokens = [3900];
    const process = rig.process();
    const place = await process.place(asked('r', 4000, { homeId: 'b' }));
    expect(place).toMatchObject({ worker: { id: 'b' }, dpRank: 0, cachedTokens: 3000 });
    expect(rig.workers.map((worker) => worker.asked)).toEqual([0, 1, 0, 0]);
    expect(await process.counted('home')).toBe(1);
  });

  it('goes to where most of its prompt is cached', async () => {
    const rig = await AskingRig.open(FOUR);
    rig.worker('c').cachedTokens = [3960];
    const process = rig.process();
    for (let at = 0; at < 20; at++) {
      const place = await process.place(asked(`r${at}`, 4000));
      expect(place).toMatchObject({ worker: { id: 'c' }, dpRank: 0, cachedTokens: 3960 });
      rig.worker('c').service.arrived(`r${at}`);
    }
    expect(await process.counted('held')).toBe(20);
  });

  it('goes where hashing sends it, unless another one is clearly cheaper', async () => {
    const rig = await AskingRig.open(FOUR);
    for (const worker of rig.workers) worker.prefillTokens = [3000];
    const chosen = async (homeId: string) => {
      const place = await rig.process().place(asked('r', 1000, { homeId }));
      for (const { service } of rig.workers) service.arrived('r');
      return place?.worker.id;
    };
    for (const id of FOUR) expect(await chosen(id)).toBe(id);
    rig.worker('c').prefillTokens = [1500];
    expect(await chosen('b')).toBe('b');
    rig.worker('c').prefillTokens = [0];
    expect(await chosen('a')).toBe('c');
  });

  it('goes elsewhere when too many wait there', async () => {
    const rig = await AskingRig.open(FOUR);
    rig.worker('c').cachedTokens = [960];
    rig.worker('c').prefillTokens = [40_000];
    expect((await rig.process().place(asked('r')))?.worker.id).not.toBe('c');
  });

  it('waits longer for a cache if all workers prefill, because a second copy would cost later requests more', async () => {
    const chosen = async (backlogs: readonly number[]) => {
      const rig = await AskingRig.open(FOUR);
      rig.worker('b').cachedTokens = [3000];
      for (const [at, worker] of rig.workers.entries()) worker.prefillTokens = [backlogs[at] as number];
      return (await rig.process().place(asked('r', 4000)))?.worker.id;
    };
    expect(await chosen([40_000, 20_000, 1000, 40_000])).toBe('b');
    expect(await chosen([40_000, 20_000, 0, 0])).toMatch(/[cd]/);
  });

  it('goes to the rank that has it cached, or to the one that it has to', async () => {
    const rig = await AskingRig.open(FOUR, 4);
    rig.worker('b').cachedTokens = [0, 0, 3960, 0];
    rig.worker('d').cachedTokens = [0, 3720, 0, 0];
    const process = rig.process();
    expect(await process.place(asked('r1', 4000))).toMatchObject({ worker: { id: 'b' }, dpRank: 2 });
    expect(await process.place(asked('r2', 4000, { dpRank: 1 }))).toMatchObject({ worker: { id: 'd' }, dpRank: 1 });
    expect(await process.place(asked('r3', 4000, { homeId: 'b' }))).toMatchObject({ worker: { id: 'b' }, dpRank: 2 });
    expect(await process.counted('home')).toBe(1);
  });
});

describe('requests of one instant in processes that do not see each other', () => {
  it('go to a worker each, because a promised place counts in the next quote', async () => {
    for (let round = 0; round < 20; round++) {
      const rig = await AskingRig.open(FOUR);
      const asking = ['x', 'y', 'z'].map((name, at) =>
        rig.process(at + 1).place(asked(`${name}${round}`, 40_000), new AbortController().signal),
      );
      const taken = (await Promise.all(asking)).map((place) => place?.worker.id);
      expect(new Set(taken).size).toBe(3);
    }
  });

  it('run neither all to the one cache that they share, nor all to one other worker', async () => {
    const rig = await AskingRig.open(FOUR);
    rig.worker('a').cachedTokens = [4000];
    const places = await Promise.all(
      Array.from({ length: 40 }, (_, at) => {
        const prompt = asked(`r${at}`, 8000, { homeId: FOUR[at % 4] as string });
        return rig.process(at + 1).place(prompt, new AbortController().signal);
      }),
    );
    for (const id of FOUR) {
      const there = places.filter((place) => place?.worker.id === id).length;
      expect(there).toBeGreaterThan(4);
      expect(there).toBeLessThan(20);
    }
  });
});

describe('a place that was promised', () => {
  it('counts until its request comes', async () => {
    const rig = await AskingRig.open(['a', 'b']);
    rig.worker('a').cachedTokens = [990];
    const process = rig.process();
    const chosen = async (id: string) => (await process.place(asked(id, 40_000)))?.worker.id;
    const first = await chosen('r1');
    expect(await chosen('r2')).not.toBe(first);
    for (const { service } of rig.workers) for (const id of ['r1', 'r2']) service.arrived(id);
    expect(await chosen('r1')).toBe(first); // as idle as it was
  });

  it('is given up when its request does not come', async () => {
    const rig = await AskingRig.open(['a', 'b']);
    const process = rig.process();
    const first = (await process.place(asked('r1', 40_000)))?.worker.id;
    await rig.pass(300);
    expect((await process.place(asked('r1', 40_000)))?.worker.id).toBe(first);
  });
});

describe('a worker', () => {
  it('that is gone is not compared, and not asked again for a second', async () => {
    const rig = await AskingRig.open(FOUR);
    rig.worker('a').cachedTokens = [960];
    await rig.kill('a');
    const process = rig.process();
    expect((await process.place(asked('r1')))?.worker.id).toMatch(/[bcd]/);
    expect(await process.counted('held')).toBe(1);
  });

  it('that never answers costs two requests the deadline, the next ones nothing for a second', async () => {
    const rig = await AskingRig.open(FOUR);
    rig.worker('a').instead = () => {};
    const process = rig.process();
    for (let at = 0; at < 2; at++) {
      const waiting = process.place(asked(`r${at}`));
      await rig.pass(DEADLINE_MS);
      expect((await waiting)?.worker.id).toMatch(/[bcd]/);
    }
    expect(await process.counted('late')).toBe(2); // there was no time left for a claim
    for (let at = 0; at < 5; at++) expect((await process.place(asked(`s${at}`)))?.worker.id).toMatch(/[bcd]/);
    expect(rig.worker('a').asked).toBe(2);
    await rig.pass(1000);
    rig.worker('a').instead = undefined;
    expect((await process.place(asked('t')))?.worker.id).toBe('a');
  });

  it('that hashing names and that is slow is awaited while the others answer: its cache is worth that', async () => {
    const rig = await AskingRig.open(FOUR);
    const a = rig.worker('a');
    a.instead = (call) => void rig.clock.after(0.8 * DEADLINE_MS, () => a.service.serve(call));
    const process = rig.process();
    const waiting = process.place(asked('r'));
    await rig.pass(DEADLINE_MS / 2);
    expect(rig.workers.map((worker) => worker.asked)).toEqual([1, 1, 1, 1]);
    await rig.pass(DEADLINE_MS / 2);
    expect((await waiting)?.worker.id).toBe('a');
    expect(await process.counted('home')).toBe(1);
  });

  it('that was late is no silent one when it answers the next request', async () => {
    const rig = await AskingRig.open(FOUR);
    const process = rig.process();
    for (let at = 0; at < 6; at++) {
      rig.worker('a').instead = at % 2 === 0 ? () => {} : undefined;
      const waiting = process.place(asked(`r${at}`));
      await rig.pass(DEADLINE_MS);
      await waiting;
    }
    expect(rig.worker('a').asked).toBeGreaterThanOrEqual(6);
  });

  it.each([
    ['of another release, without the endpoint', workerError('WorkerUnavailable', 'no such endpoint')],
    ['that is full', workerError('WorkerOverloaded', 'at capacity')],
  ])('%s is not compared', async (_, refusal) => {
    const rig = await AskingRig.open(FOUR);
    rig.worker('a').cachedTokens = [960];
    rig.worker('a').refusal = refusal;
    expect((await rig.process().place(asked('r')))?.worker.id).toMatch(/[bcd]/);
  });

  it.each([
    ['no list', { ranks: 'many' }],
    ['negative load', { ranks: [{ dp_rank: 0, cached_tokens: 1, prefill_tokens: -1e9, active_blocks: 0 }] }],
    ['load that is no number', { ranks: [{ dp_rank: 0, cached_tokens: 1, prefill_tokens: 'none', active_blocks: 0 }] }],
    [
      'a rank that it does not have',
      { ranks: [{ dp_rank: 7, cached_tokens: 990, prefill_tokens: 0, active_blocks: 0 }] },
    ],
    ['nothing', undefined],
  ])('that answers %s is not compared', async (_, body) => {
    const rig = await AskingRig.open(FOUR);
    const a = rig.worker('a');
    a.instead = (call) => {
      if (isClaim(call)) return a.service.serve(call); // it goes wrong in one thing alone
      if (body !== undefined) call.output({ body });
      call.end();
    };
    const process = rig.process();
    for (let at = 0; at < 10; at++) expect((await process.place(asked(`r${at}`)))?.worker.id).toMatch(/[bcd]/);
  });

  it('that says it has more cached than the prompt is long has all of it, and no more', async () => {
    const rig = await AskingRig.open(FOUR);
    rig.worker('a').cachedTokens = [1e9];
    rig.worker('a').prefillTokens = [30_000];
    const process = rig.process();
    expect((await process.place(asked('r')))?.worker.id).toMatch(/[bcd]/);
    rig.worker('a').prefillTokens = [0];
    expect(await process.place(asked('s'))).toMatchObject({ worker: { id: 'a' }, cachedTokens: 1000 });
  });

  it('that fails the claim is left for another one', async () => {
    const rig = await AskingRig.open(FOUR);
    const a = rig.worker('a');
    a.cachedTokens = [3960];
    a.instead = (call) => {
      if (isClaim(call)) call.fail(workerError('WorkerUnavailable', 'draining'));
      else a.service.serve(call);
    };
    const process = rig.process();
    expect((await process.place(asked('r', 4000, { homeId: 'b' })))?.worker.id).toMatch(/[bcd]/);
    expect(a.asked).toBe(2);
    expect(await process.counted('held')).toBe(1);
  });
});

describe('a router', () => {
  it('decides by what it knows when fewer than two workers answer', async () => {
    const rig = await AskingRig.open(['a', 'b', 'c']);
    await rig.kill('a');
    await rig.kill('b');
    const process = rig.process();
    expect(await process.place(asked('r'))).toBeUndefined();
    expect(await process.counted('unanswered')).toBe(1);
    expect(await process.place(asked('s'))).toBeUndefined(); // two are silent: not even asked
    expect(rig.worker('c').asked).toBe(1);
  });

  it('takes its own standing still for what it is, once', async () => {
    const rig = await AskingRig.open(FOUR);
    const process = rig.process();
    const unanswered = async (id: string) => {
      for (const each of rig.workers) each.instead = () => {};
      const waiting = process.place(asked(id));
      await rig.pass(DEADLINE_MS);
      expect(await waiting).toBeUndefined();
      for (const each of rig.workers) each.instead = undefined;
    };
    await unanswered('r1');
    expect(await process.place(asked('r2'))).toBeDefined();
    await unanswered('r3');
    await unanswered('r4');
    expect(await process.place(asked('r5'))).toBeUndefined(); // they are silent now
    expect(await process.counted('unanswered')).toBe(4);
  });

  it('asks no more when its request is given up', async () => {
    const rig = await AskingRig.open(FOUR);
    for (const each of rig.workers) each.instead = () => {};
    const process = rig.process();
    const given = new AbortController();
    const waiting = process.place(asked('r'), given.signal);
    await rig.pass();
    given.abort();
    expect(await waiting).toBeUndefined();
    for (const each of rig.workers) each.instead = undefined;
    expect(await process.place(asked('s'))).toBeDefined(); // nobody is taken for silent
  });

  it('asks about the first 4,096 blocks of a prompt, however long it is', async () => {
    const rig = await AskingRig.open(FOUR);
    let words = 0;
    rig.worker('a').instead = (call) => {
      words = call.tokenIds?.length ?? words;
      rig.worker('a').service.serve(call);
    };
    await rig.process().place(asked('r', 16 * 10_000));
    expect(words).toBe(2 * 4096);
  });
});
