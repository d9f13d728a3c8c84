import { describe, expect, it } from 'vitest';
import { type Random, seededRandom } from '../../../shared/clock/index.ts';
import { completed, refused } from '../../../shared/host/law/hooks.ts';
import { firstState, reported, step } from '../../../shared/host/law/step.ts';
import type { Facts, HostAction, InstanceState, ReplicaFacts, Rules, Told } from '../../../shared/host/law/types.ts';

const RULES: Rules = {
  hasGroup: true,
  hasHook: { launch: true, terminate: true },
  startMs: 480_000,
  drainMs: 900_000,
  heartbeatMs: 100_000,
};
const TICK_MS = 5000;

interface Replica {
  state: ReplicaFacts['state'];
  told: Told;
  failures: number;
  endedAtMs: number | undefined;
  readyAtMs: number;
  goneAtMs: number;
}

/** What a world does by itself, in ms since its beginning. */
interface Plan {
  readonly replicas: number;
  readonly target: readonly (readonly [atMs: number, state: string])[];
  readonly prepareMs?: number;
  readonly isPreparedBadly?: boolean;
  /** Time from a start to a worker that serves. */
  readonly readyMs?: number;
  /** How many starts of worker 0 end by themselves after five seconds. */
  readonly crashes?: number;
  readonly drainTakesMs?: number;
  readonly spotAtMs?: number;
  readonly gpuFaultAtMs?: number;
  readonly stopAtMs?: number;
  /** From when on nothing moves any more, at a start. */
  readonly hangsAtMs?: number;
  /** Share of the calls to Auto Scaling that fail. */
  readonly callFailures?: number;
  /** Time from a change of the target to its open hook. */
  readonly opensLateMs?: number;
}

interface Seen {
  readonly atMs: number;
  readonly action: HostAction;
  readonly state: InstanceState;
  readonly facts: Facts;
}

/** Plays the agent against a world in virtual time, one step each five seconds. */
class World {
  readonly seen: Seen[] = [];
  /** Hooks that Auto Scaling has completed, with their times. */
  readonly accepted: (readonly [atMs: number, hook: string])[] = [];
  readonly replicas: Replica[];
  state: InstanceState;
  readonly #plan: Plan;
  readonly #rules: Rules;
  readonly #random: Random;
  #preparedAtMs: number | undefined;
  #crashes: number;
  nowMs = 0;

  constructor(plan: Plan, rules: Rules = RULES, random: Random = seededRandom(1)) {
    this.#plan = plan;
    this.#rules = rules;
    this.#random = random;
    this.#crashes = plan.crashes ?? 0;
    this.replicas = Array.from({ length: plan.replicas }, () => ({
      state: 'absent' as const,
      told: 'nothing' as const,
      failures: 0,
      endedAtMs: undefined,
      readyAtMs: 0,
      goneAtMs: Number.POSITIVE_INFINITY,
    }));
    this.state = firstState(plan.target[0]?.[1], 0);
  }

  run(untilMs: number): this {
    for (; this.nowMs <= untilMs; this.nowMs += TICK_MS) {
      for (const replica of this.replicas) this.#live(replica);
      const facts = this.facts();
      const { state, actions } = step(this.state, facts, this.#rules);
      this.state = state;
      for (const action of actions) {
        this.seen.push({ atMs: this.nowMs, action, state, facts });
        this.#carryOut(action);
      }
    }
    return this;
  }

  facts(): Facts {
    const { target, spotAtMs, gpuFaultAtMs = Number.POSITIVE_INFINITY, stopAtMs, hangsAtMs } = this.#plan;
    const isPrepared = this.#preparedAtMs !== undefined && this.nowMs >= this.#preparedAtMs;
    const done = this.#plan.isPreparedBadly ? 'failed' : 'done';
    return {
      nowMs: this.nowMs,
      target: target.findLast(([atMs]) => atMs <= this.nowMs)?.[1],
      spotAtMs: spotAtMs !== undefined && this.nowMs >= spotAtMs ? spotAtMs + 120_000 : undefined,
      replicas: this.replicas.map(({ state, told, failures, endedAtMs }) => ({ state, told, failures, endedAtMs })),
      preparation: this.#preparedAtMs === undefined ? 'idle' : isPrepared ? done : 'running',
      progressAtMs: Math.min(this.nowMs, hangsAtMs ?? Number.POSITIVE_INFINITY),
      gpuFault: this.nowMs >= gpuFaultAtMs ? 'Xid 79' : undefined,
      isStopping: stopAtMs !== undefined && this.nowMs >= stopAtMs,
    };
  }

  /** Actions of a kind, with their times. */
  did(kind: HostAction['kind']): readonly Seen[] {
    return this.seen.filter(({ action }) => action.kind === kind);
  }

  completions(): readonly string[] {
    return this.did('complete').map(({ action }) =>
      action.kind === 'complete' ? `${action.hook} ${action.result}` : '',
    );
  }

  #live(replica: Replica): void {
    if (replica.state === 'absent') return;
    if (this.nowMs >= replica.goneAtMs) {
      if (replica.told === 'nothing') replica.failures++;
      Object.assign(replica, { state: 'absent', told: 'nothing', endedAtMs: this.nowMs });
    } else if (this.nowMs >= replica.readyAtMs && this.#plan.hangsAtMs === undefined) replica.state = 'ready';
  }

  #carryOut(action: HostAction): void {
    const isCall = action.kind === 'complete' || action.kind === 'unhealthy';
    if (isCall && this.#random.next() < (this.#plan.callFailures ?? 0)) return;
    if (action.kind === 'prepare') this.#preparedAtMs ??= this.nowMs + (this.#plan.prepareMs ?? 60_000);
    if (action.kind === 'start') {
      const replica = this.replicas[action.replica]!;
      const crashes = action.replica === 0 && this.#crashes-- > 0;
      const goneAtMs = crashes ? this.nowMs + TICK_MS : Number.POSITIVE_INFINITY;
      const readyAtMs = crashes
        ? Number.POSITIVE_INFINITY
        : this.nowMs + (this.#plan.readyMs ?? 120_000) + 30_000 * action.replica;
      Object.assign(replica, { state: 'starting', told: 'nothing', goneAtMs, readyAtMs });
    }
    if (action.kind === 'tell') {
      const replica = this.replicas[action.replica]!;
      const takesMs = action.wish === 'drain' ? (this.#plan.drainTakesMs ?? 60_000) : 0;
      Object.assign(replica, { told: action.wish, goneAtMs: Math.min(replica.goneAtMs, this.nowMs + takesMs) });
    }
    if (action.kind === 'complete') this.#complete(action.hook, action.result);
    if (action.kind === 'unhealthy') this.state = reported(this.state);
  }

  #complete(hook: 'launch' | 'terminate', result: string): void {
    const [changedAtMs = 0] = this.#plan.target.findLast(([atMs]) => atMs <= this.nowMs) ?? [];
    if (this.nowMs < changedAtMs + (this.#plan.opensLateMs ?? 0)) {
      this.state = refused(this.state, hook, this.nowMs);
      return;
    }
    this.state = completed(this.state, hook);
    this.accepted.push([this.nowMs, `${hook} ${result}`]);
  }
}

const IN_SERVICE = [[0, 'InService']] as const;

describe('a start', () => {
  it('completes the launch hook once, after every worker is registered', () => {
    const world = new World({ replicas: 4, target: IN_SERVICE }).run(1_000_000);
    expect(world.completions()).toEqual(['launch CONTINUE']);
    expect(world.did('complete')[0]?.facts.replicas.every(({ state }) => state === 'ready')).toBe(true);
    expect(world.state.phase).toEqual({ kind: 'serving' });
  });

  it('sends heartbeats while something moves, and none two minutes after it hangs', () => {
    const world = new World({ replicas: 1, target: IN_SERVICE, readyMs: 900_000, hangsAtMs: 300_000 }).run(950_000);
    const beats = world.did('heartbeat').map(({ atMs }) => atMs);
    expect(beats).toEqual([100_000, 200_000, 300_000, 400_000]);
  });

  it('is given up after twice the expected time', () => {
    const world = new World({ replicas: 1, target: IN_SERVICE, readyMs: 2_000_000 }).run(2_000_000);
    expect(world.completions()).toEqual(['launch ABANDON']);
    expect(world.did('complete')[0]?.atMs).toBe(965_000);
    expect(world.did('start-failed')).toHaveLength(1);
  });

  it('survives one end of an engine and is given up at the second', () => {
    expect(new World({ replicas: 2, target: IN_SERVICE, crashes: 1 }).run(600_000).completions()).toEqual([
      'launch CONTINUE',
    ]);
    const twice = new World({ replicas: 2, target: IN_SERVICE, crashes: 2 }).run(600_000);
    expect(twice.completions()).toEqual(['launch ABANDON']);
    expect(twice.replicas.every(({ state }) => state === 'absent')).toBe(true);
  });

  it('is given up for a GPU fault, and for weights that cannot be fetched', () => {
    const faulty = new World({ replicas: 1, target: IN_SERVICE, gpuFaultAtMs: 90_000 }).run(600_000);
    expect(faulty.completions()).toEqual(['launch ABANDON']);
    const bare = new World({ replicas: 1, target: IN_SERVICE, isPreparedBadly: true }).run(600_000);
    expect(bare.completions()).toEqual(['launch ABANDON']);
    expect(bare.did('start')).toEqual([]);
  });

  it('without a group ends the agent, so that its supervisor starts it again', () => {
    const rules = { ...RULES, hasGroup: false, hasHook: { launch: false, terminate: false } };
    const world = new World({ replicas: 1, target: [], crashes: 9 }, rules).run(120_000);
    expect(world.did('exit')[0]?.action).toEqual({ kind: 'exit', code: 1 });
  });
});

describe('a warm pool', () => {
  it('prepares, completes the hook and starts no worker', () => {
    const world = new World({ replicas: 2, target: [[0, 'Warmed:Stopped']] }).run(600_000);
    expect(world.completions()).toEqual(['launch CONTINUE']);
    expect(world.did('start')).toEqual([]);
    expect(world.state.phase).toEqual({ kind: 'warm' });
  });

  it('gives workers to the group, which has a launch hook of its own', () => {
    const target = [
      [0, 'Warmed:Running'],
      [300_000, 'InService'],
    ] as const;
    const world = new World({ replicas: 2, target }).run(900_000);
    expect(world.completions()).toEqual(['launch CONTINUE', 'launch CONTINUE']);
    expect(world.did('start')[0]?.atMs).toBe(300_000);
    expect(world.state.phase).toEqual({ kind: 'serving' });
  });

  it('takes workers back after their drain', () => {
    const target = [
      [0, 'InService'],
      [600_000, 'Warmed:Stopped'],
    ] as const;
    const world = new World({ replicas: 2, target, drainTakesMs: 250_000 }).run(1_200_000);
    expect(world.completions()).toEqual(['launch CONTINUE', 'terminate CONTINUE']);
    expect(world.did('complete')[1]?.atMs).toBe(850_000);
    expect(world.state.phase).toEqual({ kind: 'warm' });
  });

  it('takes workers back and gives them to the group again before the agent has looked', () => {
    const target = [
      [0, 'InService'],
      [600_000, 'Warmed:Running'],
      [605_000, 'InService'],
    ] as const;
    const world = new World({ replicas: 2, target, drainTakesMs: 30_000 }).run(1_200_000);
    expect(world.completions()).toEqual(['launch CONTINUE', 'launch CONTINUE']);
    expect(world.state.phase).toEqual({ kind: 'serving' });
  });
});

describe('an end', () => {
  const TERMINATED = [
    [0, 'InService'],
    [600_000, 'Terminated'],
  ] as const;

  it('drains once, with heartbeats, and completes the hook once when the last worker is gone', () => {
    const world = new World({ replicas: 2, target: TERMINATED, drainTakesMs: 400_000 }).run(2_000_000);
    expect(world.completions()).toEqual(['launch CONTINUE', 'terminate CONTINUE']);
    expect(world.did('tell').map(({ action }) => action.kind === 'tell' && action.wish)).toEqual(['drain', 'drain']);
    const beats = world.did('heartbeat').filter(({ atMs }) => atMs > 600_000);
    expect(beats.map(({ atMs }) => atMs)).toEqual([700_000, 800_000, 900_000]);
    expect(world.did('complete')[1]?.atMs).toBe(1_000_000);
  });

  it('hurries workers that are late, kills them at the limit, and completes the hook all the same', () => {
    const world = new World({ replicas: 1, target: TERMINATED, drainTakesMs: 9e9 }).run(2_000_000);
    const wishes = world.did('tell').map(({ atMs, action }) => [atMs, action.kind === 'tell' && action.wish]);
    expect(wishes).toEqual([
      [600_000, 'drain'],
      [1_495_000, 'hurry'],
    ]);
    expect(world.completions()).toEqual(['launch CONTINUE', 'terminate CONTINUE']);
  });

  it('by a Spot notice is over within 90 seconds, tells the planner once, and needs no hook until Auto Scaling asks', () => {
    const target = [
      [0, 'InService'],
      [700_000, 'Terminated'],
    ] as const;
    const world = new World({ replicas: 2, target, spotAtMs: 600_000, drainTakesMs: 9e9 }).run(1_000_000);
    expect(world.did('interrupted').map(({ action }) => action)).toEqual([
      { kind: 'interrupted', interruption: { kind: 'spot-warning', deadlineAtMs: 720_000 } },
    ]);
    const gone = world.replicas.map(({ endedAtMs }) => endedAtMs ?? Number.POSITIVE_INFINITY);
    expect(Math.max(...gone)).toBeLessThanOrEqual(690_000);
    expect(world.completions()).toEqual(['launch CONTINUE', 'terminate CONTINUE']);
    expect(world.did('complete')[1]?.atMs).toBe(700_000);
  });

  it('by a Spot notice shortens a drain that has begun', () => {
    const world = new World({ replicas: 1, target: TERMINATED, spotAtMs: 650_000, drainTakesMs: 9e9 }).run(1_000_000);
    expect(world.replicas[0]?.endedAtMs).toBeLessThanOrEqual(740_000);
  });

  it('by a GPU fault reports the instance at once, because the hook keeps it for its drain', () => {
    const target = [
      [0, 'InService'],
      [620_000, 'Terminated'],
    ] as const;
    const world = new World({ replicas: 2, target, gpuFaultAtMs: 600_000, drainTakesMs: 100_000 }).run(1_000_000);
    expect(world.did('unhealthy').map(({ atMs }) => atMs)).toEqual([600_000]);
    expect(world.completions()).toEqual(['launch CONTINUE', 'terminate CONTINUE']);
    const rules = { ...RULES, hasHook: { launch: true, terminate: false } };
    const unheld = new World({ replicas: 2, target: IN_SERVICE, gpuFaultAtMs: 600_000, drainTakesMs: 100_000 }, rules);
    expect(
      unheld
        .run(1_000_000)
        .did('unhealthy')
        .map(({ atMs }) => atMs),
    ).toEqual([700_000]);
  });

  it('by the end of a capacity block is over half an hour before it', () => {
    const blockEndsAtMs = 4_000_000;
    const world = new World({ replicas: 1, target: IN_SERVICE, drainTakesMs: 9e9 }, { ...RULES, blockEndsAtMs });
    world.run(3_000_000);
    expect(world.did('tell')[0]?.atMs).toBe(blockEndsAtMs - 1_800_000 - RULES.drainMs);
    expect(world.replicas[0]?.endedAtMs).toBeLessThanOrEqual(blockEndsAtMs - 1_800_000);
  });

  it('of the agent drains and exits; the next agent serves again without a second launch', () => {
    const stopped = new World({ replicas: 1, target: IN_SERVICE, stopAtMs: 600_000 }).run(900_000);
    expect(stopped.did('exit')[0]?.action).toEqual({ kind: 'exit', code: 0 });
    const next = new World({ replicas: 1, target: IN_SERVICE });
    next.state = stopped.state;
    expect(next.run(900_000).completions()).toEqual([]);
    expect(next.state.phase).toEqual({ kind: 'serving' });
  });
});

describe('a hook that opens late', () => {
  it('is completed again until Auto Scaling knows it', () => {
    const target = [
      [0, 'Warmed:Running'],
      [600_000, 'InService'],
      [1_200_000, 'Terminated'],
    ] as const;
    const world = new World({ replicas: 1, target, readyMs: 5000, drainTakesMs: 5000, opensLateMs: 90_000 });
    expect(world.run(1_400_000).accepted).toEqual([
      [95_000, 'launch CONTINUE'],
      [700_000, 'launch CONTINUE'],
      [1_300_000, 'terminate CONTINUE'],
    ]);
    expect(world.state.phase).toEqual({ kind: 'drained', reason: 'terminated' });
  });

  it('is given up with the same result', () => {
    const world = new World({ replicas: 1, target: IN_SERVICE, isPreparedBadly: true, opensLateMs: 90_000 });
    expect(world.run(400_000).accepted).toEqual([[95_000, 'launch ABANDON']]);
  });

  it('counts as over after five minutes of refusals', () => {
    const world = new World({ replicas: 1, target: IN_SERVICE, opensLateMs: 9e9 }).run(4_000_000);
    const tries = world.did('complete').map(({ atMs }) => atMs);
    expect(tries.length).toBeLessThan(30);
    expect(tries.at(-1)! - tries[0]!).toBe(305_000);
    expect(world.state).toMatchObject({ phase: { kind: 'serving' }, isLaunched: true });
  });

  it('does not keep an agent that must stop', () => {
    const target = [...IN_SERVICE, [600_000, 'Terminated']] as const;
    const world = new World({ replicas: 1, target, stopAtMs: 600_000, drainTakesMs: 5000, opensLateMs: 9e9 });
    expect(world.run(700_000).did('exit')[0]?.atMs).toBeLessThan(620_000);
  });
});

/** Makes up a plan. */
function madeUp(random: Random): Plan {
  const chance = (share: number): boolean => random.next() < share;
  const time = (): number => TICK_MS * random.below(400);
  const ends: (readonly [number, string])[] = chance(0.8)
    ? [[time() + TICK_MS, chance(0.7) ? 'Terminated' : 'Warmed:Stopped']]
    : [];
  return {
    replicas: 1 + random.below(8),
    target: [[0, chance(0.8) ? 'InService' : 'Warmed:Running'], ...ends],
    prepareMs: time() / 10,
    isPreparedBadly: chance(0.1),
    readyMs: time() / 2,
    crashes: chance(0.3) ? random.below(7) : 0,
    drainTakesMs: chance(0.3) ? 9e9 : time(),
    ...(chance(0.3) ? { spotAtMs: time() } : {}),
    ...(chance(0.2) ? { gpuFaultAtMs: time() } : {}),
    callFailures: chance(0.3) ? 0.7 : 0,
    opensLateMs: chance(0.3) ? time() / 10 : 0,
  };
}

describe('any life of an instance', () => {
  it.each(Array.from({ length: 300 }, (_, seed) => seed))('keeps its promises with seed %i', (seed) => {
    const random = seededRandom(seed);
    const plan = madeUp(random);
    const world = new World(plan, RULES, random).run(6_000_000);
    let isEnding = false;
    let drainUntilMs = Number.POSITIVE_INFINITY;
    for (const { action, facts, state } of world.seen) {
      if (state.phase.kind === 'draining') {
        isEnding = true;
        expect(state.phase.untilMs).toBeLessThanOrEqual(drainUntilMs); // the limit only comes nearer
        drainUntilMs = state.phase.untilMs;
      }
      if (state.phase.kind === 'warm' || state.phase.kind === 'starting') drainUntilMs = Number.POSITIVE_INFINITY;
      if (action.kind === 'start') expect(isEnding && facts.target === 'Terminated').toBe(false);
      if (action.kind === 'complete' && action.hook === 'launch' && action.result === 'CONTINUE') {
        const isReady = facts.replicas.every((replica) => replica.state === 'ready');
        const isServing = state.phase.kind === 'serving'; // a worker may end while Auto Scaling does not answer
        expect(isReady || isServing || facts.target?.startsWith('Warmed:')).toBe(true);
      }
      if (action.kind === 'complete' && action.hook === 'terminate') {
        expect(facts.replicas.every((replica) => replica.state === 'absent')).toBe(true);
      }
      if (action.kind === 'tell' && action.wish === 'kill' && state.phase.kind === 'draining') {
        expect(facts.nowMs).toBeGreaterThanOrEqual(state.phase.untilMs);
      }
    }
    const succeeded = new Map<string, number>();
    for (const { action, state } of world.did('complete')) {
      if (action.kind !== 'complete') continue;
      const key = `${action.hook} ${action.result} ${state.phase.kind}`;
      succeeded.set(key, (succeeded.get(key) ?? 0) + 1);
    }
    if (plan.callFailures === 0 && plan.opensLateMs === 0)
      for (const count of succeeded.values()) expect(count).toBe(1);
    if (plan.target.at(-1)?.[1] === 'Terminated') {
      expect(world.state.isEnded).toBe(true);
      expect(world.accepted.filter(([, hook]) => hook === 'terminate CONTINUE')).toHaveLength(1);
      expect(world.replicas.every(({ state }) => state === 'absent')).toBe(true);
    }
  });
});
