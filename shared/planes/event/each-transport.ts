import { assertNever, reasonOf } from '../../errors/index.ts';
import type { EventListener, EventPlane, EventScope, EventSubscription, EventTransport } from './types.ts';

export interface EachTransportOptions {
  /** Plane of the settings of this process, on which it publishes. */
  readonly own: EventPlane;
  /** Kind of the publishers that `own` follows. */
  readonly ownKind: EventTransport['kind'];
  /** Opens a plane that follows publishers of `transport`. Closed with this plane. */
  open(transport: EventTransport): EventPlane;
  /** Called with the failure to open a plane, and for publishers that no plane follows. */
  readonly onProblem: (problem: unknown) => void;
}

/** Bound of the planes that records can make a process open. Each has connections of its own. */
const OTHER_PLANES_MAX = 8;

/**
 * Returns the own plane, whose subscriptions also follow publishers of other transports, as their records name them. So
 * a process hears the workers of another product whatever event plane its own settings choose. The other planes are
 * opened for the first publisher that needs them.
 */
export function followEachTransport(options: EachTransportOptions): EventPlane {
  const { own, open, onProblem } = options;
  const others = new Map<string, EventPlane>();
  const planeOf = (transport: EventTransport): EventPlane => {
    const name = placeOf(transport);
    const known = others.get(name);
    if (known !== undefined) return known;
    if (others.size >= OTHER_PLANES_MAX)
      throw new RangeError(`event publishers use more than ${OTHER_PLANES_MAX} different brokers`);
    const opened = open(transport);
    others.set(name, opened);
    return opened;
  };
  return {
    ...own,
    async subscribe(scope, topic, listener) {
      const first = await own.subscribe(scope, topic, listener);
      return new EachSubscription(first, { ...options, planeOf, onProblem, scope, topic, listener });
    },
    absence: () => own.absence?.() ?? [...others.values()].map((plane) => plane.absence?.()).find((each) => each),
    async close() {
      await Promise.all([own.close(), ...[...others.values()].map((plane) => plane.close())]);
    },
  };
}

/** Names the place at which a subscription hears publishers of this transport. */
function placeOf(transport: EventTransport): string {
  switch (transport.kind) {
    case 'Zmq':
    case 'Nats':
    case 'Memory':
      return transport.kind;
    case 'ZmqBroker':
      return `ZmqBroker ${transport.config.xpub_endpoints.join()}`;
    default:
      return assertNever(transport);
  }
}

interface EachSubscriptionOptions {
  readonly ownKind: EventTransport['kind'];
  planeOf(transport: EventTransport): EventPlane;
  readonly onProblem: (problem: unknown) => void;
  readonly scope: EventScope;
  readonly topic: string;
  readonly listener: EventListener;
}

/** Subscriptions of one scope and topic, one for each place at which there are publishers. */
class EachSubscription implements EventSubscription {
  readonly #options: EachSubscriptionOptions;
  readonly #own: EventSubscription;
  readonly #others = new Map<string, Promise<EventSubscription>>(); // by place
  readonly #placeOf = new Map<string, string>(); // of each publisher that another plane follows
  #isClosed = false;

  constructor(own: EventSubscription, options: EachSubscriptionOptions) {
    this.#own = own;
    this.#options = options;
  }

  connect(publisherId: string, transport: EventTransport): void {
    if (this.#isClosed) return;
    if (transport.kind === this.#options.ownKind) {
      this.#leave(publisherId);
      this.#own.connect(publisherId, transport);
      return;
    }
    const place = placeOf(transport);
    if (this.#placeOf.get(publisherId) !== place) this.disconnect(publisherId);
    this.#placeOf.set(publisherId, place);
    this.#with(place, transport, (subscription) => {
      if (this.#placeOf.get(publisherId) === place) subscription.connect(publisherId, transport);
    });
  }

  disconnect(publisherId: string): void {
    this.#own.disconnect(publisherId);
    this.#leave(publisherId);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#placeOf.clear();
    const others = [...this.#others.values()].map(async (opening) => {
      const subscription = await opening.catch(() => undefined); // reported when it failed
      await subscription?.close();
    });
    await Promise.all([this.#own.close(), ...others]);
  }

  #leave(publisherId: string): void {
    const place = this.#placeOf.get(publisherId);
    if (place === undefined) return;
    this.#placeOf.delete(publisherId);
    void this.#others.get(place)?.then(
      (subscription) => subscription.disconnect(publisherId),
      () => {}, // nothing was opened
    );
  }

  /**
   * Calls `use` with the subscription at a place, which it opens if there is none. The next caller retries a failure.
   */
  #with(place: string, transport: EventTransport, use: (subscription: EventSubscription) => void): void {
    const known = this.#others.get(place);
    const opening = known ?? this.#subscribe(transport);
    this.#others.set(place, opening);
    opening.then(use).catch((problem: unknown) => {
      if (this.#others.get(place) !== opening) return;
      this.#others.delete(place);
      this.#options.onProblem(new Error(`event publishers cannot be followed: ${reasonOf(problem)}`));
    });
  }

  async #subscribe(transport: EventTransport): Promise<EventSubscription> {
    const { planeOf, scope, topic, listener } = this.#options;
    return planeOf(transport).subscribe(scope, topic, listener);
  }
}
