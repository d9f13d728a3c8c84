import { SimulatedInstance } from './instance.ts';
import type { OptionLedger } from './ledger.ts';

interface MembersOptions {
  /** Name of the group. */
  readonly group: string;
  readonly zones: readonly string[];
  readonly ledger: OptionLedger;
  readonly time: { readonly nowMs: number };
}

/** Instances of a simulated group, with their states and what is paid for them. */
export class Members implements Iterable<SimulatedInstance> {
  readonly #options: MembersOptions;
  readonly #byId = new Map<string, SimulatedInstance>();
  /** Instances that count toward the desired capacity, by zone. */
  readonly #counts: Map<string, number>;
  #serial = 0;

  constructor(options: MembersOptions) {
    this.#options = options;
    this.#counts = new Map(options.zones.map((zone) => [zone, 0]));
  }

  [Symbol.iterator](): Iterator<SimulatedInstance> {
    return this.#byId.values();
  }

  find(instanceId: string): SimulatedInstance | undefined {
    return this.#byId.get(instanceId);
  }

  get serving(): SimulatedInstance[] {
    return [...this].filter(({ state }) => state === 'InService');
  }

  get warm(): SimulatedInstance[] {
    return [...this].filter(({ isWarm }) => isWarm);
  }

  /** Instances that count toward the desired capacity and that EC2 does not take soon. */
  get lasting(): SimulatedInstance[] {
    return [...this].filter(({ isCounted, isAtRisk }) => isCounted && !isAtRisk);
  }

  /** Returns how many instances of a zone count toward the desired capacity. */
  countIn(zone: string): number {
    return this.#counts.get(zone) ?? 0;
  }

  /** Returns the zones, that with the fewest instances first ("Availability Zone balancing"). */
  zones(): readonly string[] {
    const { zones } = this.#options;
    return zones.length === 1
      ? zones
      : zones.toSorted((one, other) => this.#counts.get(one)! - this.#counts.get(other)!);
  }

  create(zone: string): SimulatedInstance {
    const id = `i-${this.#options.group}-${++this.#serial}`;
    const instance = new SimulatedInstance(id, zone, this.#options.time.nowMs);
    this.#byId.set(id, instance);
    this.#counts.set(zone, (this.#counts.get(zone) ?? 0) + 1); // it is pending
    return instance;
  }

  remove(instance: SimulatedInstance): void {
    this.pay(instance, undefined);
    this.#byId.delete(instance.id);
  }

  become(instance: SimulatedInstance, state: SimulatedInstance['state']): void {
    const before = instance.isCounted ? 1 : 0;
    instance.state = state;
    const now = instance.isCounted ? 1 : 0;
    this.#counts.set(instance.zone, (this.#counts.get(instance.zone) ?? 0) + now - before);
  }

  /** Changes the rate at which an instance is paid for from now on. */
  pay(instance: SimulatedInstance, rate: SimulatedInstance['rate']): void {
    const { ledger, time } = this.#options;
    if (instance.rate === rate) return;
    if (instance.rate !== undefined) ledger.pay(instance.rate, -1, time.nowMs);
    if (rate !== undefined) ledger.pay(rate, 1, time.nowMs);
    instance.rate = rate;
  }
}
