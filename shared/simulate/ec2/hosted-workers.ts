import type { InstanceLoad, Unit } from '../../planner/index.ts';
import type { FleetPool, SimulatedWorker } from '../fleet-pool.ts';
import type { SimulatedInstance } from './instance.ts';

interface Engine {
  readonly instances: readonly SimulatedInstance[];
  readonly workers: readonly SimulatedWorker[];
}

interface HostedTime {
  after(delayMs: number, callback: () => void): void;
}

export interface HostedOptions {
  readonly pool: FleetPool;
  readonly unit: Unit;
  /** Longest drain. */
  readonly drainMs: number;
  readonly time: HostedTime;
  /** Called when nothing runs on an instance any more. */
  onDrained(instance: SimulatedInstance): void;
  /** Called with the requests that were cut off. */
  onMoved(count: number): void;
}

const DRAIN_POLL_MS = 1000;

/**
 * Workers on the instances of one option. An instance holds some workers, or an engine needs several instances: then
 * they wait for each other, and it ends with the first that leaves.
 */
export class HostedWorkers {
  readonly #options: HostedOptions;
  readonly #engines = new Map<string, Engine>(); // by instance
  readonly #instanceOf = new Map<number, string>(); // by the worker's number
  #waiting: SimulatedInstance[] = [];
  readonly #leaving = new Set<SimulatedInstance>();

  constructor(options: HostedOptions) {
    this.#options = options;
  }

  /** Takes an instance that serves from now on. @param existing workers that serve already, for the start of a fleet */
  add(instance: SimulatedInstance, existing?: SimulatedWorker[]): void {
    const { unit, pool } = this.#options;
    this.#waiting.push(instance);
    if (this.#waiting.length < unit.instances) return;
    const instances = this.#waiting;
    this.#waiting = [];
    const workers = existing?.splice(0, unit.replicas) ?? this.#begin(pool, unit.replicas);
    for (const { number } of workers) this.#instanceOf.set(number, instance.id);
    for (const { id } of instances) this.#engines.set(id, { instances, workers });
  }

  /** Lets the workers of an instance end what they have; then the instance is drained. */
  drain(instance: SimulatedInstance): void {
    const isKnown = this.#leaving.has(instance);
    this.#leave(instance);
    const workers = this.#engines.get(instance.id)?.workers ?? [];
    for (const worker of workers) if (worker.state === 'ready') this.#options.pool.become(worker, 'draining');
    if (isKnown) return;
    this.#options.time.after(this.#options.drainMs, () => this.#cut(instance));
    this.#look(instance);
  }

  /** Cuts off what runs on an instance that was taken away. */
  lose(instance: SimulatedInstance): void {
    this.#leave(instance);
    this.#cut(instance);
  }

  /** Returns the load of an instance, as its workers report it; undefined without workers. */
  loadOf(instanceId: string): InstanceLoad | undefined {
    const workers = this.#engines.get(instanceId)?.workers.filter(({ state }) => state !== 'gone') ?? [];
    if (workers.length === 0) return undefined;
    const ranks = workers.flatMap((worker) => worker.ranks);
    return { activeBlocks: ranks.reduce((total, rank) => total + rank.activeBlocks, 0), generation: '1' };
  }

  /** Returns the instance of a worker. */
  instanceOf({ number }: Pick<SimulatedWorker, 'number'>): string | undefined {
    return this.#instanceOf.get(number);
  }

  #begin(pool: FleetPool, count: number): readonly SimulatedWorker[] {
    return Array.from({ length: count }, () => {
      const worker = pool.addWorker('starting');
      pool.become(worker, 'ready');
      return worker;
    });
  }

  /** Notes that an instance is about to end. No engine begins on it any more. */
  #leave(instance: SimulatedInstance): void {
    this.#leaving.add(instance);
    this.#waiting = this.#waiting.filter((each) => each !== instance);
  }

  #look(instance: SimulatedInstance): void {
    const { time, pool } = this.#options;
    if (!this.#leaving.has(instance)) return;
    const workers = this.#engines.get(instance.id)?.workers ?? [];
    const busy = workers.filter(({ state, ranks }) => {
      return state !== 'gone' && !ranks.every(({ isIdle, inPass }) => isIdle && !inPass);
    });
    for (const worker of workers) if (worker.state !== 'gone' && !busy.includes(worker)) pool.become(worker, 'gone');
    if (busy.length > 0) time.after(DRAIN_POLL_MS, () => this.#look(instance));
    else this.#left(instance);
  }

  #cut(instance: SimulatedInstance): void {
    if (!this.#leaving.has(instance)) return;
    const { pool, onMoved } = this.#options;
    for (const worker of this.#engines.get(instance.id)?.workers ?? []) {
      if (worker.state !== 'gone') onMoved(pool.lose(worker));
    }
    this.#left(instance);
  }

  /** Forgets an instance. Others of its engine wait for a new one. */
  #left(instance: SimulatedInstance): void {
    this.#leaving.delete(instance);
    const engine = this.#engines.get(instance.id);
    for (const { number } of engine?.workers ?? []) this.#instanceOf.delete(number);
    for (const each of engine?.instances ?? []) {
      this.#engines.delete(each.id);
      if (each !== instance && each.state === 'InService' && !this.#leaving.has(each)) this.add(each);
    }
    this.#options.onDrained(instance);
  }
}
