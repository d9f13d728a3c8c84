import { reasonOf } from '../errors/index.ts';
import type { DiscoveryEvent, WatchListener } from './types.ts';

/** Told of trouble that no caller waits for: a failed renewal, an unreadable entry, a listener that threw. */
export type ReportProblem = (problem: Error) => void;

/** Tells a listener what it is to hear: outages once each, nothing after it was closed, and its failures to somebody else. */
export class WatchTeller {
  readonly #listener: WatchListener;
  readonly #report: ReportProblem;
  #isFailing = false;
  #isClosed = false;

  constructor(listener: WatchListener, report: ReportProblem) {
    this.#listener = listener;
    this.#report = report;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  event(event: DiscoveryEvent): void {
    this.#tell(() => this.#listener.event(event));
  }

  /** The store cannot be read; what is known stays. */
  fail(error: Error): void {
    if (this.#isFailing) return;
    this.#isFailing = true;
    this.#tell(() => this.#listener.failing?.(error));
  }

  /** The store was read, and every change told. */
  succeed(): void {
    if (!this.#isFailing) return;
    this.#isFailing = false;
    this.#tell(() => this.#listener.recovered?.());
  }

  close(): void {
    this.#isClosed = true;
  }

  #tell(deliver: () => void): void {
    if (this.#isClosed) return; // a listener may close its own watch between two events
    try {
      deliver();
    } catch (error) {
      this.#report(new Error(`a discovery listener failed: ${reasonOf(error)}`, { cause: error })); // others go on
    }
  }
}
