import { systemClock, systemRandom } from '../../../shared/clock/index.ts';
import type { Discovery } from '../../../shared/discovery/index.ts';
import { reasonOf } from '../../../shared/errors/index.ts';
import { Hold } from '../../../shared/pipeline/index.ts';
import type { EventPlane, EventPublisher, EventScope } from '../../../shared/planes/event/index.ts';
import { createHoldMetrics, type Logger, type MetricRegistry } from '../../../shared/telemetry/index.ts';
import type { FrontendSettings } from './frontend.ts';

interface HoldParts {
  readonly registry: MetricRegistry;
  readonly logger: Logger;
  readonly discovery: Discovery;
  /** Undefined on hosts that publish nothing. */
  readonly openEventPlane: (() => EventPlane) | undefined;
}

/** Where requests wait for workers, and the events that ask for some. */
export interface OpenHold {
  readonly hold: Hold;
  close(): Promise<void>;
}

/** Topic of the wish for a worker (planner.md, section 16.2), published for a namespace. */
const HELD_TOPIC = 'request_held';

/** Undefined where the settings ask for no waiting. */
export function openHold(settings: FrontendSettings, parts: HoldParts): OpenHold | undefined {
  const { holdTimeoutSecs = 0, holdMax, namespace = 'dynamo' } = settings;
  if (holdTimeoutSecs === 0) return undefined;
  const { logger, registry } = parts;
  const events = new HeldEvents(namespace, parts);
  const hold = new Hold({
    clock: systemClock,
    timeoutMs: holdTimeoutSecs * 1000,
    requestsMax: holdMax,
    observer: {
      ...createHoldMetrics(registry),
      wanted: (model, count, oldestAtMs) => {
        logger.info('requests wait for a worker', { model, requests: count });
        events.publish(model, count, oldestAtMs);
      },
    },
  });
  return { hold, close: () => events.close() };
}

/** Publishes `request.held`; the plane is opened by the first one, as most frontends never publish any. */
class HeldEvents {
  readonly #scope: EventScope;
  readonly #namespace: string;
  readonly #parts: HoldParts;
  readonly #source = systemRandom.instanceId();
  readonly #epoch = systemRandom.instanceId();
  #sequence = 0;
  #plane: EventPlane | undefined;
  #publisher: Promise<EventPublisher> | undefined;

  constructor(namespace: string, parts: HoldParts) {
    this.#namespace = namespace;
    this.#scope = { kind: 'namespace', namespace };
    this.#parts = parts;
  }

  publish(model: string, count: number, oldestAtMs: number): void {
    const { openEventPlane, logger } = this.#parts;
    if (openEventPlane === undefined) return;
    const event = {
      type: 'request.held',
      v: 1,
      namespace: this.#namespace,
      model,
      source: this.#source,
      held_count: count,
      oldest_at: oldestAtMs,
      epoch: this.#epoch,
      seq: this.#sequence++,
    };
    this.#publisher ??= this.#open(openEventPlane);
    this.#publisher
      .then((publisher) => publisher.publish(event))
      .catch((thrown: unknown) => {
        this.#publisher = undefined; // the next event, in 5 s, tries again
        logger.warn('cannot ask for a worker', { model, reason: reasonOf(thrown) });
      });
  }

  async close(): Promise<void> {
    const publisher = await this.#publisher?.catch(() => undefined); // told when it failed
    await publisher?.close();
    await this.#plane?.close();
  }

  async #open(openEventPlane: () => EventPlane): Promise<EventPublisher> {
    this.#plane ??= openEventPlane();
    const publisher = await this.#plane.publisher(this.#scope, HELD_TOPIC);
    const { publisherId: instance_id, transport } = publisher;
    const record = { type: 'EventChannel', scope: this.#scope, topic: HELD_TOPIC, instance_id, transport } as const;
    try {
      await this.#parts.discovery.put(record, AbortSignal.timeout(PUT_MS_MAX));
    } catch (thrown) {
      await publisher.close();
      throw thrown;
    }
    return publisher;
  }
}

const PUT_MS_MAX = 5000;
