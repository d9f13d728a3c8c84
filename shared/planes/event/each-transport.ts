import { assertNever, reasonOf } from '../../errors/index.ts';
import { OtherPlanes } from './other-planes.ts';
import type { EventListener, EventPlane, EventScope, EventSubscription, EventTransport } from './types.ts';

export interface EachTransportOptions {
  /** Plane of the settings of this process, on which it publishes. */
  readonly own: EventPlane;
  /** Kind of the publishers that `own` follows. */
  readonly ownKind: EventTransport['kind'];
  /** Opens a plane that follows publishers of `transport`. Closed after the last of them, and with this plane. */
  open(transport: EventTransport): EventPlane;
  /** Called with the failure to open a plane, and for publishers that no plane follows. */
  readonly onProblem: (problem: unknown) => void;
}

/**
 * Returns the own plane, whose subscriptions also follow publishers of other transports, as their records name them. So
 * a process hears the workers of another product whatever event plane its own settings choose. Each other plane opens
 * for the first publisher that needs it, and closes when its last publisher has left.
 */
export function followEachTransport(options: EachTransportOptions): EventPlane {
  const { own, ownKind, open, onProblem } = options;
  const planes = new OtherPlanes({ open, onProblem });
  return {
    ...own,
    async subscribe(scope, topic, listener) {
      const first = await own.subscribe(scope, topic, listener);
      return new EachSubscription(first, { ownKind, planes, onProblem, scope, topic, listener });
    },
    absence: () => own.absence?.() ?? planes.absence(),
    async close() {
      await Promise.all([own.close(), planes.close()]);
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
  readonly planes: OtherPlanes;
  readonly onProblem: (problem: unknown) => void;
  readonly scope: EventScope;
  readonly topic: string;
  readonly listener: EventListener;
}

/** Publishers at one place, and the subscription that hears them. */
interface Place {
  readonly publishers: Map<string, EventTransport>;
  /** Undefined after a failure; the next publisher tries again. */
  opening: Promise<EventSubscription> | undefined;
}

/** Subscriptions of one scope and topic, one for each place at which there are publishers. */
class EachSubscription implements EventSubscription {
  readonly #options: EachSubscriptionOptions;
  readonly #own: EventSubscription;
  readonly #places = new Map<string, Place>();
  readonly #placeOf = new Map<string, string>(); // of each publisher that another plane follows
  /** Subscriptions that nothing uses and that are not closed yet. */
  readonly #leaving = new Set<Promise<void>>();
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
    const name = placeOf(transport);
    if (this.#placeOf.get(publisherId) !== name) this.disconnect(publisherId);
    this.#placeOf.set(publisherId, name);
    const place = this.#places.get(name) ?? { publishers: new Map(), opening: undefined };
    this.#places.set(name, place);
    place.publishers.set(publisherId, transport);
    if (place.opening === undefined) this.#open(name, place, transport);
    else void place.opening.then((subscription) => this.#join(place, publisherId, subscription), reported);
  }

  disconnect(publisherId: string): void {
    this.#own.disconnect(publisherId);
    this.#leave(publisherId);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const publisherId of [...this.#placeOf.keys()]) this.#leave(publisherId);
    await Promise.all([this.#own.close(), ...this.#leaving]);
  }

  /** Subscribes at a place for all its publishers. */
  #open(name: string, place: Place, transport: EventTransport): void {
    const opening = this.#subscribe(name, transport);
    place.opening = opening;
    opening.then(
      (subscription) => {
        for (const publisherId of place.publishers.keys()) this.#join(place, publisherId, subscription);
      },
      (problem: unknown) => {
        place.opening = undefined;
        if (place.publishers.size > 0)
          this.#options.onProblem(new Error(`event publishers cannot be followed: ${reasonOf(problem)}`));
      },
    );
  }

  /** Connects to a publisher, unless it has left meanwhile. */
  #join({ publishers }: Place, publisherId: string, subscription: EventSubscription): void {
    const transport = publishers.get(publisherId);
    if (transport !== undefined) subscription.connect(publisherId, transport);
  }

  /** Forgets a publisher, and closes the subscription at its place if it was the last one there. */
  #leave(publisherId: string): void {
    const name = this.#placeOf.get(publisherId);
    const place = name === undefined ? undefined : this.#places.get(name);
    if (name === undefined || place === undefined) return;
    this.#placeOf.delete(publisherId);
    place.publishers.delete(publisherId);
    if (place.publishers.size > 0) {
      void place.opening?.then((subscription) => subscription.disconnect(publisherId), reported);
      return;
    }
    this.#places.delete(name);
    const leaving = this.#close(name, place).finally(() => this.#leaving.delete(leaving));
    this.#leaving.add(leaving);
  }

  async #close(name: string, { opening }: Place): Promise<void> {
    const subscription = await opening?.catch(reported);
    if (subscription === undefined) return;
    try {
      await subscription.close();
    } catch (problem) {
      this.#options.onProblem(problem);
    } finally {
      this.#options.planes.release(name);
    }
  }

  async #subscribe(name: string, transport: EventTransport): Promise<EventSubscription> {
    const { planes, scope, topic, listener } = this.#options;
    const plane = await planes.acquire(name, transport);
    try {
      return await plane.subscribe(scope, topic, listener);
    } catch (problem) {
      planes.release(name);
      throw problem;
    }
  }
}

/** Handles the failure to open a subscription where another handler reports it. */
function reported(): undefined {}
