import { BLOCK_ENDS_EARLY_MS, type OptionSpec, SPOT_NOTICE_MS } from '../../planner/index.ts';
import { type Activities, GroupActivities } from './activities.ts';
import { Capacity, type Place } from './capacity.ts';
import type { OptionConditions } from './conditions.ts';
import type { GroupOptions } from './group-options.ts';
import type { SimulatedInstance } from './instance.ts';
import { OptionLedger, type PhaseTimes } from './ledger.ts';
import { Members } from './members.ts';
import { coldPhases, totalMs, warmPhases } from './start.ts';

/** From a change to the group's answer to it. */
const ACT_MS = 1000;
/** From a failed launch to the next try. */
const RETRY_MS = 60_000;
/** From the end of a drain until an instance is gone. */
const END_MS = 5000;
const MS_PER_HOUR = 3_600_000;

/**
 * An Auto Scaling group of one option in virtual time, as a deployment creates it. Instances that serve are protected
 * from scale-in. A spot group replaces an instance at its notice. A warm pool is filled up again.
 */
export class SimulatedGroup {
  readonly spec: OptionSpec;
  readonly conditions: OptionConditions;
  readonly ledger = new OptionLedger();
  readonly activities: Activities;
  desired: number;
  readonly #activities: GroupActivities;
  readonly #members: Members;
  readonly #capacity: Capacity;
  readonly #options: GroupOptions;
  #retryAtMs = 0;
  #isPoked = false;
  #isOver = false;

  constructor(options: GroupOptions) {
    const { spec, conditions, time, count } = options;
    this.spec = spec;
    this.conditions = conditions;
    this.desired = Math.max(spec.min, count);
    this.#options = options;
    this.#capacity = new Capacity(conditions.shortages);
    this.#members = new Members({ group: spec.group, zones: conditions.zones, ledger: this.ledger, time });
    this.#activities = new GroupActivities(spec, time, options.listener);
    this.activities = this.#activities;
    for (let at = 0; at < this.desired; at++) this.#enterService(this.#members.create(this.#members.zones()[0]!));
    for (let at = 0; at < (spec.warmPool?.min ?? 0); at++)
      this.#intoPool(this.#members.create(this.#members.zones()[0]!));
    this.#schedule();
  }

  get instances(): Iterable<SimulatedInstance> {
    return this.#members;
  }

  find(instanceId: string): SimulatedInstance | undefined {
    return this.#members.find(instanceId);
  }

  setDesired(desired: number): void {
    this.desired = desired;
    this.#retryAtMs = 0;
    this.#poke();
  }

  /** Ends one instance, and lowers the desired capacity by one. */
  terminate(instance: SimulatedInstance): void {
    this.desired--;
    this.#end(instance);
  }

  /** Lets an instance go whose drain has ended. It was chosen to end, so the warm pool does not take it back. */
  drained(instance: SimulatedInstance): void {
    if (instance.state !== 'Terminating:Wait') return;
    this.#members.become(instance, 'Terminating:Proceed');
    this.#later(instance, END_MS, () => this.#remove(instance));
  }

  /** EC2 takes a spot instance back: a notice now, and the end two minutes later. */
  interrupt(instance: SimulatedInstance): void {
    if (instance.state !== 'InService' || instance.isAtRisk) return;
    this.ledger.interruptions++;
    instance.isAtRisk = true;
    this.#activities.tellInterruption(instance.id);
    this.#options.listener.isNoticed(instance);
    this.#poke();
    this.#after(SPOT_NOTICE_MS, () => this.#lose(instance));
  }

  /** Plans what the conditions say. */
  #schedule(): void {
    const { endsAt } = this.spec;
    const { time, random } = this.#options;
    for (const atS of this.conditions.interruptionsAt) {
      this.#after(1000 * atS - time.nowMs, () => {
        const serving = this.#members.serving.filter(({ isAtRisk }) => !isAtRisk);
        const one = serving[Math.floor(random.next() * serving.length)];
        if (one !== undefined) this.interrupt(one);
      });
    }
    if (endsAt === undefined) return;
    const untilMs = Date.parse(endsAt) - BLOCK_ENDS_EARLY_MS - time.beginsAtMs;
    this.#after(Math.max(0, untilMs), () => {
      this.#isOver = true;
      for (const instance of [...this.#members]) this.#lose(instance);
    });
  }

  #poke(): void {
    if (this.#isPoked) return;
    this.#isPoked = true;
    this.#after(ACT_MS, () => {
      this.#isPoked = false;
      this.#launchMissing();
      this.#endReplaced();
      this.#scaleIn();
      this.#fillPool();
    });
  }

  /** Launches what is missing, from the warm pool first. Instances at risk are replaced before they end. */
  #launchMissing(): void {
    const lasting = this.#members.lasting.length;
    const prepared = this.#members.warm.filter(({ isPrepared }) => isPrepared);
    for (let missing = this.desired - lasting; missing > 0; missing--) {
      const warm = prepared.shift();
      if (warm !== undefined) this.#start(warm, warmPhases(this.conditions, this.#options.random), 'warm');
      else if (!this.#launch('cold')) return;
    }
  }

  /** Ends instances at risk once enough others serve ("Use Capacity Rebalancing"). */
  #endReplaced(): void {
    const serving = this.#members.serving;
    let spare = serving.length - this.desired;
    for (const instance of serving) {
      if (!instance.isAtRisk || spare-- <= 0) continue;
      this.#end(instance);
    }
  }

  /** Calls off launches that are too many: of the zone with the most, then the oldest. Others are protected. */
  #scaleIn(): void {
    const { lasting } = this.#members;
    const pending = lasting
      .filter(({ isStarting }) => isStarting)
      .toSorted((one, other) => this.#members.countIn(other.zone) - this.#members.countIn(one.zone));
    for (const instance of pending.slice(0, Math.max(0, lasting.length - this.desired))) {
      this.ledger.calledOff++;
      this.#end(instance);
    }
  }

  /** Launches what the warm pool lacks, and ends what it has too many. */
  #fillPool(): void {
    const size = this.#isOver ? 0 : (this.spec.warmPool?.min ?? 0);
    const warm = this.#members.warm;
    for (const instance of warm.slice(size)) this.#end(instance);
    for (let missing = size - warm.length; missing > 0; missing--) if (!this.#launch('warm')) return;
  }

  /** Asks EC2 for one instance, zone by zone and type by type. Returns false if there is none, and tries later. */
  #launch(kind: 'cold' | 'warm'): boolean {
    const { time, random } = this.#options;
    const nowS = time.nowMs / 1000;
    if (time.nowMs < this.#retryAtMs) return false;
    const refused = new Map<string, { readonly place: Place; readonly code: string }>();
    for (const zone of this.#members.zones()) {
      for (const type of this.spec.types) {
        const place = { zone, type };
        const code = this.#isOver ? 'ReservationCapacityExceeded' : this.#capacity.launch(place, nowS);
        if (code === undefined) {
          this.ledger.launches++;
          const phases = coldPhases(this.conditions, random);
          const instance = this.#members.create(zone);
          if (kind === 'cold') this.#start(instance, phases, 'cold');
          else this.#prepare(instance, phases);
          return true;
        }
        refused.set(zone, { place, code });
      }
    }
    for (const { place, code } of refused.values()) this.#activities.launchFailed(place, code);
    for (const { code } of refused.values()) this.ledger.fails(code);
    this.#retryAtMs = time.nowMs + RETRY_MS;
    this.#after(RETRY_MS, () => this.#poke());
    return false;
  }

  /** Abandons a start, as a planner does with a launch that it calls off. The group replaces it if it is missing. */
  abandon(instance: SimulatedInstance): void {
    this.ledger.calledOff++;
    this.#abandon(instance);
  }

  /** Starts an instance that is to serve. */
  #start(instance: SimulatedInstance, phasesMs: PhaseTimes, kind: 'cold' | 'warm'): void {
    const { random, listener } = this.#options;
    const fails = this.conditions.startFailures > 0 && random.next() < this.conditions.startFailures;
    if (kind === 'warm') this.ledger.warmStarts++;
    this.#members.become(instance, 'Pending');
    this.#activities.launches(instance);
    this.#afterCapacity(instance, 'Pending:Wait', phasesMs, () => {
      if (fails) {
        this.ledger.fails('StartFailed');
        this.#abandon(instance);
        return;
      }
      this.ledger.served(phasesMs);
      this.#enterService(instance);
      listener.serves(instance);
      this.#poke();
    });
  }

  #abandon(instance: SimulatedInstance): void {
    this.#activities.abandoned(instance);
    this.#members.become(instance, 'Terminating:Proceed');
    this.#later(instance, END_MS, () => this.#remove(instance));
    this.#poke();
  }

  /** Waits until EC2 has an instance, which is paid for from then on, and then for the other phases of its start. */
  #afterCapacity(
    instance: SimulatedInstance,
    state: SimulatedInstance['state'],
    phasesMs: PhaseTimes,
    then: () => void,
  ): void {
    const begin = (): void => {
      this.#members.become(instance, state);
      this.#members.pay(instance, 'full');
      this.#later(instance, totalMs(phasesMs) - phasesMs.capacity, then);
    };
    if (phasesMs.capacity === 0) begin();
    else this.#later(instance, phasesMs.capacity, begin);
  }

  #enterService(instance: SimulatedInstance): void {
    this.#members.become(instance, 'InService');
    this.#members.pay(instance, 'full');
    const { interruptionsPerHour } = this.conditions;
    if (interruptionsPerHour === 0) return;
    const inMs = (-Math.log(1 - this.#options.random.next()) * MS_PER_HOUR) / interruptionsPerHour;
    this.#after(inMs, () => this.interrupt(instance));
  }

  /** Launches an instance into the warm pool: it starts once, so that what it loads is there the next time. */
  #prepare(instance: SimulatedInstance, phasesMs: PhaseTimes): void {
    this.#members.become(instance, 'Warmed:Pending');
    this.#afterCapacity(instance, 'Warmed:Pending', phasesMs, () => this.#intoPool(instance));
  }

  #intoPool(instance: SimulatedInstance): void {
    this.#members.become(instance, `Warmed:${this.spec.warmPool?.state ?? 'Stopped'}`);
    this.#members.pay(instance, 'warm');
    this.#poke();
  }

  #end(instance: SimulatedInstance): void {
    const isServing = instance.state === 'InService';
    this.#members.become(instance, isServing ? 'Terminating:Wait' : 'Terminating:Proceed');
    this.#poke();
    if (isServing) this.#options.listener.drains(instance);
    else this.#later(instance, END_MS, () => this.#remove(instance));
  }

  #lose(instance: SimulatedInstance): void {
    if (this.#members.find(instance.id) === undefined || instance.state === 'Terminating:Proceed') return;
    this.#members.become(instance, 'Terminating:Proceed');
    this.#options.listener.isLost(instance);
    this.#later(instance, END_MS, () => this.#remove(instance));
    this.#poke();
  }

  #remove(instance: SimulatedInstance): void {
    this.#members.remove(instance);
    this.#poke();
  }

  #later(instance: SimulatedInstance, delayMs: number, then: () => void): void {
    const { step } = instance;
    this.#after(delayMs, () => {
      if (instance.step === step) then();
    });
  }

  #after(delayMs: number, then: () => void): void {
    this.#options.time.after(delayMs, then);
  }
}
