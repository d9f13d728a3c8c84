import type { ServeError } from '../../../../errors/index.ts';
import type { ItemObserver } from './output-items.ts';

/** How an answer ends. */
export type FinalEvent = 'response.completed' | 'response.incomplete' | 'response.failed';

/** Where one answer goes: events of a stream, or one object. All texts are JSON. */
export interface ResponsesOutlet {
  /** Hears of the items. */
  readonly observer: ItemObserver;
  /** The client has been told of the response: a failure must be told by it too. */
  readonly isBegun: boolean;
  /** An answer without a word still has an empty message. */
  readonly needsItem: boolean;
  begin(body: string): void;
  annotate(frame: string): void;
  /** @returns as `writeObject` */
  finish(event: FinalEvent, body: object, nvext: Iterable<string>): Promise<void> | undefined;
  /** Ends an answer that has not begun with a status. */
  refuse(error: ServeError): void;
  abandon(): void;
}
