import type { ServeError } from '../../../../errors/index.ts';
import type { Inference } from '../../inference.ts';
import { objectText, sendError, sendObject } from '../../sinks/send.ts';
import { SseStream } from '../../sinks/sse-stream.ts';
import { ItemEvents } from './item-events.ts';
import type { ItemObserver } from './output-items.ts';

const EVENT_END = '}\n\n';

/** How a response ends. */
export type FinalEvent = 'response.completed' | 'response.incomplete' | 'response.failed';

/** Where one response goes: events of a stream, or one object. All texts are JSON. */
export interface ResponseOutlet {
  /** Hears of the items. */
  readonly observer: ItemObserver;
  /** The client has been told of the response: a failure must be told by it too. */
  readonly isBegun: boolean;
  /** A response without a word still has an empty message. */
  readonly needsItem: boolean;
  /** @param body made when it is told: by then it is known who answers */
  begin(body: () => string): void;
  annotate(frame: string): void;
  /** @returns as `sendObject` */
  finish(event: FinalEvent, body: object, nvext: Iterable<string>): Promise<void> | undefined;
  /** Ends a response that has not begun with a status. */
  refuse(error: ServeError): void;
  abandon(): void;
}

const NOBODY: ItemObserver = Object.freeze({ opened: () => {}, grew: () => {}, closed: () => {} });

/** A response as one object. */
export class ObjectOutlet implements ResponseOutlet {
  readonly observer = NOBODY;
  readonly isBegun = false;
  readonly needsItem = true;
  readonly #inference: Inference;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(inference: Inference, headers: Readonly<Record<string, string>>) {
    this.#inference = inference;
    this.#headers = headers;
  }

  begin(): void {
    // an object begins when it is complete
  }

  annotate(): void {
    // an object has no place for annotations
  }

  finish(_event: FinalEvent, body: object, nvext: Iterable<string>): Promise<void> | undefined {
    return sendObject(this.#inference, body, nvext, this.#headers);
  }

  refuse(error: ServeError): void {
    sendError(this.#inference.exchange, error, this.#inference.deps.settings.overloadStatus);
  }

  abandon(): void {
    // nothing is armed
  }
}

/** A response as events. */
export class StreamOutlet implements ResponseOutlet {
  readonly observer: ItemEvents;
  readonly needsItem = false;
  readonly #out: SseStream;

  constructor(inference: Inference, headers: Readonly<Record<string, string>>, showsSummary: boolean) {
    const out = new SseStream(inference, headers);
    this.#out = out;
    this.observer = new ItemEvents((frame, isKnownAscii) => out.write(frame, isKnownAscii), showsSummary);
  }

  get isBegun(): boolean {
    return this.#out.isCommitted;
  }

  /** Both events wait with the head: until something was generated, a failure still has its status. */
  begin(body: () => string): void {
    for (const event of ['response.created', 'response.in_progress']) {
      const head = this.observer.responseHead(event); // takes the event's number
      this.#out.annotate(() => `${head}${body()}${EVENT_END}`);
    }
  }

  annotate(frame: string): void {
    this.#out.annotate(frame);
  }

  finish(event: FinalEvent, body: object, nvext: Iterable<string>): undefined {
    this.#out.close(this.observer.response(event, objectText(body, nvext)));
  }

  refuse(error: ServeError): void {
    this.#out.fail(error);
  }

  abandon(): void {
    this.#out.abandon();
  }
}
