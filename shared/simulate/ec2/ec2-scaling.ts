import { type Random, seededRandom } from '../../clock/index.ts';
import { type Pool, type PoolSpec, unitOf } from '../../planner/index.ts';
import { groupOf, PLANNER_EVENT_VERSION } from '../../protocol/index.ts';
import type { FleetPool } from '../fleet-pool.ts';
import type { FleetScaling, ScaledFleet, ScalingPoint, ScalingTargets } from '../scaling/fleet-scaling.ts';
import type { SimulatedRequest } from '../simulated-rank.ts';
import type { Defaults, FleetConditions } from './conditions.ts';
import { conditionsOf } from './conditions.ts';
import { SimulatedGroup } from './group.ts';
import { SimulatedCalls } from './group-calls.ts';
import type { GroupListener } from './group-options.ts';
import { HostedWorkers } from './hosted-workers.ts';
import { placeWorkers } from './initial.ts';
import { pointOf } from './ledger.ts';
import { type PlannedFleet, PlannerRounds } from './planner-rounds.ts';
import { nameOf, type RolledPool, rollUp, shareOf, Traffic } from './roll-up.ts';
import { simulatedClock } from './simulated-clock.ts';

/** A fleet on EC2 that the planner of a deployment scales. */
export interface Ec2ScalingOptions extends ScalingTargets, PlannedFleet {
  readonly conditions: FleetConditions;
  readonly defaults: Defaults;
}

/** An option of a pool with its group and what runs there. */
export interface SimulatedOption {
  readonly pool: Pool;
  readonly spec: PoolSpec;
  readonly group: SimulatedGroup;
  readonly hosted: HostedWorkers;
}

/** Longest wait of an urgent message until the planner has it: the queue, and the start of a function. */
const URGENT_MS = 1000;

/** Scales a fleet as a planner on AWS does, with simulated Auto Scaling groups. */
export class Ec2Scaling implements FleetScaling {
  readonly points: ScalingPoint[] = [];
  readonly options: readonly SimulatedOption[];
  /** Seconds from the first request without any worker to a worker that serves. */
  readonly fromZeroS: number[] = [];
  readonly calls: SimulatedCalls;
  /** Unix time of the moment at which the simulation begins. */
  readonly beginsAtMs: number;
  readonly #fleet: ScaledFleet;
  readonly #scaling: Ec2ScalingOptions;
  readonly #random: Random;
  readonly #rounds: PlannerRounds;
  readonly #traffic: Traffic;
  #events: object[] = [];
  #isUrgent = false;
  #arrived = 0;
  #sequence = 0;
  #zeroSinceMs: number | undefined;

  constructor(fleet: ScaledFleet, scaling: Ec2ScalingOptions, random: Random) {
    const { planner, conditions } = scaling;
    this.#fleet = fleet;
    this.#scaling = scaling;
    this.#random = random;
    this.beginsAtMs = Date.parse(conditions.beginsAt ?? '2026-01-01T00:00:00Z');
    this.#traffic = new Traffic(fleet.size);
    this.options = fleet.pools.flatMap((pool) => this.#open(pool));
    this.calls = new SimulatedCalls(this.options.map(({ group }) => group));
    this.#rounds = new PlannerRounds({
      ...scaling,
      calls: this.calls,
      clock: simulatedClock(fleet, this.beginsAtMs),
      loadOf: (id) => this.#hostOf(id)?.hosted.loadOf(id),
      drain: (ids) => this.#drain(ids),
    });
    fleet.after(1000 * planner.config.tickSeconds, () => this.#tick());
  }

  get ups(): number {
    return this.#rounds.ups;
  }

  get downs(): number {
    return this.#rounds.downs;
  }

  get interruptions(): number {
    return this.#sum(({ ledger }) => ledger.interruptions);
  }

  get failures(): number {
    return this.#sum(({ ledger }) => Object.values(ledger.failures).reduce((total, count) => total + count, 0));
  }

  get moved(): number {
    return this.#sum(({ ledger }) => ledger.moved);
  }

  /** Paid GPU time until now, in milliseconds. Instances that are stopped in a warm pool have no GPU. */
  get gpuMs(): number {
    return this.#sum(({ spec, ledger }) => {
      const { running, warm } = ledger.hours;
      const isRunning = spec.warmPool?.state === 'Running';
      return 3_600_000 * (running + (isRunning ? warm : 0)) * spec.gpusPerInstance;
    });
  }

  arrived(): void {
    this.#arrived++;
    const [pool] = this.#fleet.pools;
    if (this.#zeroSinceMs !== undefined || pool?.workers.some(({ state }) => state === 'ready')) return;
    this.#zeroSinceMs = this.#fleet.nowMs;
    this.#hurry();
  }

  began(index: number): void {
    this.#traffic.began(index);
  }

  refused(): void {}

  answered(request: SimulatedRequest, outputTokens: number): void {
    this.#traffic.answered(request, outputTokens, this.#fleet.nowMs);
  }

  settle(): void {
    for (const { group } of this.options) group.ledger.settle(this.#fleet.nowMs);
  }

  /** Opens the groups of a pool, with the workers that serve already. */
  #open(pool: FleetPool): readonly SimulatedOption[] {
    const { fleet, conditions, defaults } = this.#scaling;
    const name = pool.options.role === 'prefill' ? 'prefill' : 'decode';
    const spec = fleet.pools[name];
    if (spec === undefined) return [];
    const existing = [...pool.workers];
    const counts = placeWorkers(spec, existing.length);
    return spec.options.map((option, at) => {
      const hosted: HostedWorkers = new HostedWorkers({
        pool,
        unit: unitOf(option, spec),
        drainMs: 1000 * spec.drainSecs,
        time: this.#fleet,
        onDrained: (instance) => group.drained(instance),
        onMoved: (count) => {
          group.ledger.moved += count;
        },
      });
      const group: SimulatedGroup = new SimulatedGroup({
        spec: option,
        conditions: conditionsOf(conditions, name, option, spec, defaults),
        time: this.#timeOf(),
        random: seededRandom(Math.floor(this.#random.next() * 2 ** 31)),
        listener: this.#listen(hosted),
        count: counts[at] ?? 0,
      });
      for (const instance of group.instances) if (instance.isCounted) hosted.add(instance, existing);
      return { pool: name, spec, group, hosted };
    });
  }

  #timeOf() {
    const fleet = this.#fleet;
    const beginsAtMs = this.beginsAtMs;
    return {
      beginsAtMs,
      get nowMs() {
        return fleet.nowMs;
      },
      // After everything else of its instant: a tick of that moment does not see it yet.
      after: (delayMs: number, callback: () => void) => fleet.after(delayMs, () => fleet.after(0, callback)),
    };
  }

  #listen(hosted: HostedWorkers): GroupListener {
    return {
      serves: (instance) => {
        hosted.add(instance);
        this.#noteFromZero();
      },
      isNoticed: (instance) => hosted.drain(instance),
      drains: (instance) => hosted.drain(instance),
      isLost: (instance) => hosted.lose(instance),
      tells: (event) => {
        this.#events.push(event);
        this.#hurry();
      },
    };
  }

  #noteFromZero(): void {
    if (this.#zeroSinceMs === undefined) return;
    const isServed = this.#fleet.pools.every(({ workers }) => workers.some(({ state }) => state === 'ready'));
    if (!isServed) return;
    this.fromZeroS.push((this.#fleet.nowMs - this.#zeroSinceMs) / 1000);
    this.#zeroSinceMs = undefined;
  }

  #drain(ids: readonly string[]): void {
    for (const id of ids) {
      const option = this.#hostOf(id);
      const instance = option?.group.find(id);
      if (instance?.state === 'InService') option?.hosted.drain(instance);
    }
  }

  #hostOf(instanceId: string): SimulatedOption | undefined {
    return this.options.find(({ group }) => group.find(instanceId) !== undefined);
  }

  /** Lets the planner handle what cannot wait for its next tick. */
  #hurry(): void {
    if (this.#isUrgent) return;
    this.#isUrgent = true;
    this.#fleet.after(URGENT_MS, async () => {
      this.#isUrgent = false;
      await this.#rounds.handle([...this.#take(), ...this.#held()]);
    });
  }

  async #tick(): Promise<void> {
    this.#note();
    await this.#rounds.handle([...this.#take(), ...this.#held(), this.#rollUp(), this.#message('tick')]);
    this.#fleet.after(1000 * this.#scaling.planner.config.tickSeconds, () => this.#tick());
  }

  #take(): readonly object[] {
    return this.#events.splice(0);
  }

  #held(): readonly object[] {
    const held_count = this.#heldCount();
    if (held_count === 0) return [];
    return [{ ...this.#message('request.held'), held_count, oldest_at: this.#wallMs() }];
  }

  #heldCount(): number {
    return this.#fleet.pools.reduce((total, { held, routers }) => total + held.length + routers.pending, 0);
  }

  #rollUp(): object {
    const { totals } = this.#traffic;
    const pools = this.#fleet.pools.map((pool) => [nameOf(pool), rollUp(this.#rolled(pool), shareOf(pool, totals))]);
    return { ...this.#message('model.rollup'), pools: Object.fromEntries(pools) };
  }

  #rolled(pool: FleetPool): RolledPool {
    const own = this.options.filter((option) => (option.pool === 'prefill') === (pool.options.role === 'prefill'));
    return {
      pool,
      gpusPerReplica: own[0]?.spec.gpusPerReplica ?? 1,
      instanceOf: (worker) => {
        for (const { hosted } of own) {
          const id = hosted.instanceOf(worker);
          if (id !== undefined) return id;
        }
        return undefined;
      },
    };
  }

  #message(type: string) {
    const { namespace, model } = this.#scaling.fleet;
    const common = { v: PLANNER_EVENT_VERSION, namespace, model, source: groupOf({ namespace, model }).slice(0, 128) };
    return { type, ...common, epoch: 'simulated', seq: this.#sequence++, at: this.#wallMs() };
  }

  #note(): void {
    const atMs = this.#fleet.nowMs;
    const total = { ready: 0, starting: 0, draining: 0 };
    for (const { group, spec } of this.options) {
      const point = pointOf(group.instances, atMs);
      group.ledger.points.push(point);
      const { replicas, instances } = unitOf(group.spec, spec);
      const workers = (count: number): number => Math.floor(count / instances) * replicas;
      total.starting += workers(point.starting);
      total.draining += workers(point.draining);
    }
    const ready = this.#fleet.pools.flatMap(({ workers }) => workers.filter(({ state }) => state === 'ready')).length;
    this.points.push({ atMs, started: this.#arrived, ...total, ready, held: this.#heldCount() });
    this.#arrived = 0;
  }

  #wallMs(): number {
    return Math.floor(this.beginsAtMs + this.#fleet.nowMs);
  }

  #sum(read: (group: SimulatedGroup) => number): number {
    return this.options.reduce((total, { group }) => total + read(group), 0);
  }
}
