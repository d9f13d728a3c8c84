import type { Clock, Random } from '../../../shared/clock/index.ts';
import { MemoryDiscovery, type MemoryHub } from '../../../shared/discovery/memory/memory-discovery.ts';
import type { EventPlane, EventPublisher } from '../../../shared/planes/index.ts';
import { NO_TRAFFIC, type PlannerEventOf, ROLLUP_TOPIC } from '../../../shared/protocol/index.ts';
import { rollupOf } from './fleet-signals.ts';

const SCOPE = { kind: 'namespace', namespace: 'ns' } as const;

/** A worker that publishes what it has served on an event plane and registers in discovery, as real ones do. */
export class ToldWorker {
  readonly #discovery: MemoryDiscovery;
  readonly #publisher: EventPublisher;
  readonly #clock: Clock;
  readonly #at: number;
  #sequence = 0;
  /** Number of requests begun. */
  started = 0;
  isDraining = false;
  host: PlannerEventOf<'worker.rollup'>['host'];

  private constructor(discovery: MemoryDiscovery, publisher: EventPublisher, clock: Clock, at: number) {
    this.#discovery = discovery;
    this.#publisher = publisher;
    this.#clock = clock;
    this.#at = at;
  }

  static async begin(
    at: number,
    parts: { readonly hub: MemoryHub; readonly plane: EventPlane; readonly clock: Clock; readonly random: Random },
  ): Promise<ToldWorker> {
    const discovery = new MemoryDiscovery(parts);
    const publisher = await parts.plane.publisher(SCOPE, ROLLUP_TOPIC);
    const { publisherId: instance_id, transport } = publisher;
    const { worker_id } = rollupOf(at, 0, NO_TRAFFIC, 0);
    const record = {
      type: 'EventChannel',
      scope: SCOPE,
      topic: ROLLUP_TOPIC,
      instance_id,
      transport,
      worker_id,
    } as const;
    await discovery.put(record);
    return new ToldWorker(discovery, publisher, parts.clock, at);
  }

  get id(): string {
    return rollupOf(this.#at, 0, NO_TRAFFIC, 0).worker_id;
  }

  tell(parts: Partial<PlannerEventOf<'worker.rollup'>> = {}): void {
    const started = Math.floor(this.started);
    const totals = { ...NO_TRAFFIC, started, isl_sum: 100 * started, isl_count: started };
    const draining = this.isDraining ? { draining: true } : {};
    this.#publisher.publish({
      ...rollupOf(this.#at, this.#sequence++, totals, this.#clock.wallMs()),
      ...draining,
      ...(this.host === undefined ? {} : { host: this.host }),
      ...parts,
    });
  }

  async end(): Promise<void> {
    await this.#discovery.close();
    await this.#publisher.close();
  }
}
