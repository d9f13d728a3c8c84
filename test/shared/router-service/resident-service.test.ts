import { describe, expect, it } from 'vitest';
import type { ServeError } from '../../../shared/errors/index.ts';
import type { RouteRequest } from '../../../shared/router/router.ts';
import type { ChooseQuery, ChosenWorker } from '../../../shared/router-service/messages.ts';
import { hashBlocks } from '../../../shared/tokens/index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { BLOCK, POOL, prompt, Resident, settle, WORKERS } from './resident-rig.ts';

function query(requestId: string, tokens: Uint32Array, more: Partial<ChooseQuery> = {}): ChooseQuery {
  return {
    requestId,
    poolKey: POOL.key,
    role: POOL.role,
    blockSizeTokens: BLOCK,
    prompt: { tokens: tokens.length, hashes: hashBlocks(tokens, { blockSizeTokens: BLOCK }) },
    routing: {},
    override: undefined,
    excluded: new Set(),
    avoided: new Set(),
    policyClass: undefined,
    ...more,
  };
}

interface Told {
  queued: number | undefined;
  chosen: ChosenWorker | undefined;
  error: ServeError | undefined;
  leave: () => void;
}

async function choose(resident: Resident, asked: ChooseQuery, gone?: AbortSignal): Promise<Told> {
  const told: Told = { queued: undefined, chosen: undefined, error: undefined, leave: () => {} };
  const caller = new AbortController();
  told.leave = () => caller.abort();
  const left = gone ?? caller.signal;
  const asking = {
    left,
    get hasLeft() {
      return left.aborted;
    },
    queued: (position: number) => {
      told.queued = position;
    },
  };
  resident.service.choose(asked, asking).then(
    (chosen) => {
      told.chosen = chosen;
    },
    (error) => {
      told.error = error;
    },
  );
  await settle();
  return told;
}

describe('a reservation of the resident router', () => {
  it('goes where the prompt is cached and counts there until it is released', async () => {
    const resident = await Resident.open(new VirtualClock());
    resident.store('b', prompt(160));
    const { chosen } = await choose(resident, query('r', prompt(160)));
    expect(chosen).toMatchObject({ workerId: 'b', dpRank: 0, overlapBlocks: 10, cachedTokens: 160 });
    expect(resident.loadOf('b').requests).toBe(1);
    const release = { requestId: 'r', reservationId: chosen!.reservationId, stage: 'end' } as const;
    resident.service.release(release);
    resident.service.release(release);
    expect(resident.loadOf('b').requests).toBe(0);
    expect(resident.service.reservations).toBe(0);
  });

  it('is the same one for a repeated query', async () => {
    const resident = await Resident.open(new VirtualClock());
    const first = await choose(resident, query('r', prompt(160)));
    const again = await choose(resident, query('r', prompt(160)));
    expect(again.chosen).toEqual(first.chosen);
    expect(resident.service.reservations).toBe(1);
  });

  it('moves with a request that its worker failed, and its late release frees nothing of the new one', async () => {
    const resident = await Resident.open(new VirtualClock());
    const first = (await choose(resident, query('r', prompt(160)))).chosen!;
    const second = (await choose(resident, query('r', prompt(160), { excluded: new Set([first.workerId]) }))).chosen!;
    expect(second.workerId).not.toBe(first.workerId);
    expect(resident.loadOf(first.workerId).requests).toBe(0);
    resident.service.release({ requestId: 'r', reservationId: first.reservationId, stage: 'end' });
    expect(resident.loadOf(second.workerId).requests).toBe(1);
  });

  it('is freed after 2 s when no worker reports the request', async () => {
    const clock = new VirtualClock();
    const expired: boolean[] = [];
    const resident = await Resident.open(clock, undefined, { onExpired: (wasSeen) => expired.push(wasSeen) });
    const { chosen } = await choose(resident, query('r', prompt(160)));
    await clock.advance(1999);
    expect(resident.loadOf(chosen!.workerId).requests).toBe(1);
    await clock.advance(1);
    expect(resident.loadOf(chosen!.workerId).requests).toBe(0);
    expect(expired).toEqual([false]);
  });

  it('stays while the worker has the request, and goes when it reports the end', async () => {
    const clock = new VirtualClock();
    const resident = await Resident.open(clock);
    const { workerId } = (await choose(resident, query('r', prompt(160)))).chosen!;
    const other = WORKERS.find(({ id }) => id !== workerId)!.id;
    resident.service.reported(workerId, ['r', 'of somebody else'], []);
    await clock.advance(60_000);
    resident.service.reported(other, [], ['r']); // it is not there
    expect(resident.loadOf(workerId).requests).toBe(1);
    resident.service.reported(workerId, [], ['r']);
    expect(resident.loadOf(workerId).requests).toBe(0);
  });

  it('counts no prompt any more after the first token, which also shows that the worker has it', async () => {
    const clock = new VirtualClock();
    const resident = await Resident.open(clock);
    const { workerId, reservationId } = (await choose(resident, query('r', prompt(160)))).chosen!;
    expect(resident.loadOf(workerId).prefill).toBe(160);
    resident.service.release({ requestId: 'r', reservationId, stage: 'prefill_done' });
    await clock.advance(60_000);
    expect(resident.loadOf(workerId)).toEqual({ requests: 1, prefill: 0 });
  });

  it('is freed in the end when nothing is heard of a request that was seen', async () => {
    const clock = new VirtualClock();
    const resident = await Resident.open(clock);
    const { workerId } = (await choose(resident, query('r', prompt(160)))).chosen!;
    resident.service.reported(workerId, ['r'], []);
    await clock.advance(600_000);
    expect(resident.service.reservations).toBe(0);
  });
});

describe('reservations of a worker that is gone', () => {
  it('are freed, seen there or not, and those of others stay', async () => {
    const resident = await Resident.open(new VirtualClock());
    const at = (id: string, worker: string) =>
      choose(resident, query(id, prompt(16, Number(id)), { routing: { backend_instance_id: worker } }));
    await Promise.all([at('1', 'a'), at('2', 'a'), at('3', 'b')]);
    resident.service.reported('a', ['1'], []);
    resident.service.workerGone('a');
    expect(resident.service.reservations).toBe(1);
    expect(resident.loadOf('b').requests).toBe(1);
  });
});

describe('the queue of the resident router', () => {
  async function full(clock = new VirtualClock()): Promise<{ resident: Resident; held: ChosenWorker[] }> {
    const resident = await Resident.open(clock);
    const held: ChosenWorker[] = [];
    for (const at of [1, 2]) held.push((await choose(resident, query(`held ${at}`, prompt(160, at)))).chosen!);
    return { resident, held };
  }

  it('says how many are ahead, and decides when there is room', async () => {
    const { resident, held } = await full();
    const third = await choose(resident, query('r3', prompt(160, 3)));
    const fourth = await choose(resident, query('r4', prompt(160, 4)));
    expect([third.queued, fourth.queued]).toEqual([0, 1]);
    expect(third.chosen).toBeUndefined();
    resident.service.release({ requestId: 'held 1', reservationId: held[0]!.reservationId, stage: 'end' });
    await settle();
    expect(third.chosen?.workerId).toBe(held[0]!.workerId);
    expect(fourth.chosen).toBeUndefined();
  });

  it('tells its caller at once if the router decides a second time', async () => {
    const router = {
      choose: ({ onHeld }: RouteRequest, signal: AbortSignal) =>
        new Promise<never>((_, reject) => {
          const leaving = onHeld?.() ?? signal;
          leaving.addEventListener('abort', () => reject(leaving.reason), { once: true });
        }),
    };
    const resident = await Resident.open(new VirtualClock(), undefined, { router });
    const held = await choose(resident, query('r', prompt(160)));
    expect(held.queued).toBe(0);
    held.leave();
    await settle();
    expect(held.error?.code).toBe('client_closed_request');
  });

  it('is left by a caller that goes', async () => {
    const { resident } = await full();
    const third = await choose(resident, query('r3', prompt(160, 3)));
    third.leave();
    await settle();
    expect(resident.pending).toBe(0);
    expect(resident.service.waiting).toBe(0);
    expect(third.error?.code).toBe('client_closed_request');
  });

  it('is not entered for a caller that has gone before', async () => {
    const { resident } = await full();
    const third = await choose(resident, query('r3', prompt(160, 3)), AbortSignal.abort());
    expect([resident.pending, resident.service.waiting]).toEqual([0, 0]);
    expect(third.error?.code).toBe('client_closed_request');
  });

  it('keeps no place for a caller that has gone before a decision without waiting', async () => {
    const resident = await Resident.open(new VirtualClock());
    const asked = await choose(resident, query('r', prompt(160)), AbortSignal.abort());
    expect([resident.service.reservations, ...WORKERS.map(({ id }) => resident.loadOf(id).requests)]).toEqual([
      0, 0, 0,
    ]);
    expect(asked.error?.code).toBe('client_closed_request');
  });

  it('is left by a query that another one of the same request replaces', async () => {
    const { resident, held } = await full();
    const first = await choose(resident, query('r3', prompt(160, 3)));
    const second = await choose(resident, query('r3', prompt(160, 3)));
    expect(first.error?.worker).toBe('WorkerUnavailable');
    expect([second.queued, resident.pending]).toEqual([0, 1]);
    resident.service.release({ requestId: 'held 1', reservationId: held[0]!.reservationId, stage: 'end' });
    await settle();
    expect(second.chosen).toBeDefined();
  });

  it('also holds a query while a remote index is asked', async () => {
    const asking: (() => void)[] = [];
    const router = {
      choose: async (asked: RouteRequest, signal: AbortSignal) => {
        await new Promise<void>((resolve) => asking.push(resolve));
        return resident.kv.choose(asked, signal);
      },
    };
    const resident = await Resident.open(new VirtualClock(), undefined, { router, asksFirst: true });
    const first = await choose(resident, query('r', prompt(160)));
    const second = await choose(resident, query('r', prompt(160)));
    const gone = await choose(resident, query('r2', prompt(160)));
    gone.leave();
    for (const answer of asking) answer();
    await settle();
    expect([first.error?.worker, second.chosen?.workerId]).toEqual(['WorkerUnavailable', expect.any(String)]);
    expect(gone.error?.code).toBe('client_closed_request');
    expect([resident.service.reservations, resident.service.waiting]).toEqual([1, 0]);
  });

  it('rejects all queries when another router takes over, and keeps reservations', async () => {
    const { resident } = await full();
    const third = await choose(resident, query('r3', prompt(160, 3)));
    resident.service.standDown();
    await settle();
    expect(third.error?.worker).toBe('WorkerUnavailable');
    expect([resident.pending, resident.service.reservations]).toEqual([0, 2]);
  });
});

describe('a resident router that cannot answer', () => {
  it.each([
    ['does not hold the lease', {}],
    ['does not know the worker set', { poolKey: 'another' }],
    ['counts blocks of another size', { blockSizeTokens: 32 }],
  ])('leaves the decision to its caller when it %s', async (what, more) => {
    const resident = await Resident.open(new VirtualClock());
    resident.isLeader = what !== 'does not hold the lease';
    const { error } = await choose(resident, query('r', prompt(160), more));
    expect(error?.worker).toBe('WorkerUnavailable');
  });

  it('turns a request down when every worker is above the busy limits, as it does for its own', async () => {
    const busy = new Set(WORKERS.map(({ id }) => id));
    const findPool = () => ({ pool: POOL, workers: WORKERS, busy });
    const resident = await Resident.open(new VirtualClock(), undefined, { findPool });
    const { error } = await choose(resident, query('r', prompt(16)));
    expect(error).toMatchObject({ code: 'server_overloaded' });
    busy.delete('b');
    expect((await choose(resident, query('r', prompt(16)))).chosen).toMatchObject({ workerId: 'b' });
  });

  it('rejects a request whose override is out of range', async () => {
    const resident = await Resident.open(new VirtualClock());
    const { error } = await choose(resident, query('r', prompt(160), { override: { router_temperature: -1 } }));
    expect(error?.code).toBe('invalid_value');
  });
});

describe('explaining', () => {
  it('tells of a decision that was made and of one that would be', async () => {
    const resident = await Resident.open(new VirtualClock());
    resident.store('b', prompt(160));
    await choose(resident, query('r', prompt(160)));
    expect(resident.service.explained('r')?.chosen?.worker_id).toBe('b');
    expect(resident.service.explained('unknown')).toBeUndefined();
    const explanation = resident.service.explain(query('x', prompt(320)));
    expect(explanation.candidates.find(({ worker_id: id }) => id === 'b')?.overlap.device).toBe(10);
    expect(resident.service.reservations).toBe(1);
    expect(resident.service.loads()).toMatchObject([{ model: 'm', poolKey: 'sum', pendingRequests: 0 }]);
  });
});
