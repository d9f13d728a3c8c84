import type { TimeAndChance } from '../../clock/index.ts';
import { Lifetime } from '../../concurrency/index.ts';
import type { Discovery } from '../../discovery/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { EventPlane, EventPublisher, EventScope } from '../../planes/index.ts';
import { HELD_TOPIC, PLANNER_EVENT_VERSION, type PlannerEventOf } from '../../protocol/index.ts';
import { BoundedMap } from '../../records/index.ts';
import type { Logger } from '../../telemetry/index.ts';

export interface HeldEventsDeps extends TimeAndChance {
  readonly logger: Logger;
  readonly discovery: Discovery;
  /** Opens the event plane; undefined on hosts that publish nothing. */
  readonly openEventPlane: (() => EventPlane) | undefined;
}

/**
 * Bound of open publishers, which belong to the namespaces that asked last. A fleet may have new namespaces with every
 * roll-out.
 */
const PUBLISHERS_MAX = 16;
const PUT_MS_MAX = 5000;
/** Time after which subscribers have found a new publisher, in milliseconds. */
const HEARD_MS = 1000;

interface OpenPublisher {
  readonly publisher: EventPublisher;
  close(): Promise<void>;
}

/** Publishes `request.held`. The first event opens the plane, because most frontends never publish any. */
export class HeldEvents {
  readonly #deps: HeldEventsDeps;
  readonly #source: string;
  readonly #epoch: string;
  readonly #publishers: BoundedMap<string, Promise<OpenPublisher>>; // by namespace, the latest one last
  readonly #lifetime = new Lifetime();
  #sequence = 0;
  #plane: EventPlane | undefined;

  constructor(deps: HeldEventsDeps) {
    this.#deps = deps;
    this.#publishers = new BoundedMap(PUBLISHERS_MAX, (opening, namespace) => this.#closeDropped(opening, namespace));
    this.#source = deps.random.instanceId();
    this.#epoch = deps.random.instanceId();
  }

  publish(namespace: string, model: string, count: number, oldestAtMs: number): PlannerEventOf<'request.held'> {
    const { clock, openEventPlane, logger } = this.#deps;
    const event: PlannerEventOf<'request.held'> = {
      type: 'request.held',
      v: PLANNER_EVENT_VERSION,
      namespace,
      model,
      source: this.#source,
      held_count: count,
      oldest_at: oldestAtMs,
      epoch: this.#epoch,
      seq: this.#sequence++,
    };
    if (openEventPlane === undefined) return event;
    const known = this.#publishers.get(namespace);
    const opening = known ?? this.#open(namespace, openEventPlane);
    this.#publishers.set(namespace, opening);
    opening
      .then(async ({ publisher }) => {
        publisher.publish(event);
        if (known !== undefined) return;
        await clock.sleep(HEARD_MS); // no subscriber knew the publisher yet; a repeated event counts once
        publisher.publish(event);
      })
      .catch((thrown: unknown) => {
        // The next event, in 5 s, tries again.
        if (this.#publishers.get(namespace) === opening) this.#publishers.delete(namespace);
        logger.warn('cannot ask for a worker', { model, namespace, reason: reasonOf(thrown) });
      });
    return event;
  }

  close(): Promise<void> {
    return this.#lifetime.close();
  }

  async #closePublishers(): Promise<void> {
    const opened = await Promise.allSettled(this.#publishers.values()); // a failure was logged when it happened
    await Promise.all(opened.map((one) => one.status === 'fulfilled' && one.value.publisher.close()));
  }

  #openPlane(openEventPlane: () => EventPlane): EventPlane {
    const plane = this.#lifetime.use(openEventPlane());
    this.#lifetime.defer(() => this.#closePublishers()); // they close before their plane
    return plane;
  }

  #closeDropped(opening: Promise<OpenPublisher>, namespace: string): void {
    opening
      .then((open) => open.close())
      .catch((thrown: unknown) =>
        this.#deps.logger.debug('a publisher was not closed', { namespace, reason: reasonOf(thrown) }),
      );
  }

  async #open(namespace: string, openEventPlane: () => EventPlane): Promise<OpenPublisher> {
    const { discovery } = this.#deps;
    const scope: EventScope = { kind: 'namespace', namespace };
    this.#plane ??= this.#openPlane(openEventPlane);
    const publisher = await this.#plane.publisher(scope, HELD_TOPIC);
    const { publisherId: instance_id, transport } = publisher;
    const record = { type: 'EventChannel', scope, topic: HELD_TOPIC, instance_id, transport } as const;
    try {
      await discovery.put(record, AbortSignal.timeout(PUT_MS_MAX));
    } catch (thrown) {
      await publisher.close();
      throw thrown;
    }
    return {
      publisher,
      close: async () => {
        await publisher.close();
        await discovery.remove(record, AbortSignal.timeout(PUT_MS_MAX));
      },
    };
  }
}
