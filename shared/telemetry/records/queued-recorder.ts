import type { Clock, Timer } from '../../clock/index.ts';
import { type RequestEnd, type RequestRecorder, requestEndText } from './request-record.ts';

/** Where records go. */
export interface RecordSink {
  readonly name: string;
  /** Writes records, each one line of JSON without its end. */
  write(records: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

export interface QueuedRecorderOptions {
  readonly sinks: readonly RecordSink[];
  readonly clock: Clock;
  /** Records that wait to be written; later ones are dropped. @default 1024 */
  readonly capacity?: number;
  /** Longest time that a record waits. @default 1000 */
  readonly flushMs?: number;
  /** Told of records that nobody will read: there was no room, or a sink failed. */
  readonly onDropped: (count: number, reason: 'queue_full' | 'sink_failed') => void;
  readonly onFailure: (sink: string, error: unknown) => void;
}

/**
 * Writes records behind the requests' backs: in batches, one at a time, with a bound on what waits. A sink that is slow or
 * broken costs records, never requests.
 */
export class QueuedRecorder implements RequestRecorder {
  readonly #options: QueuedRecorderOptions;
  readonly #capacity: number;
  #waiting: RequestEnd[] = [];
  #timer: Timer | undefined;
  #writing: Promise<void> | undefined;

  constructor(options: QueuedRecorderOptions) {
    this.#options = options;
    this.#capacity = options.capacity ?? 1024;
  }

  requestEnded(end: RequestEnd): void {
    if (this.#waiting.length >= this.#capacity) {
      this.#options.onDropped(1, 'queue_full');
      return;
    }
    this.#waiting.push(end);
    this.#timer ??= this.#options.clock.after(this.#options.flushMs ?? 1000, () => this.#startWriting());
    if (this.#waiting.length * 2 >= this.#capacity) this.#startWriting();
  }

  async close(): Promise<void> {
    while (this.#writing !== undefined || this.#waiting.length > 0) {
      this.#startWriting();
      await this.#writing;
    }
    await Promise.all(this.#options.sinks.map((sink) => sink.close().catch((error) => this.#failed(sink, error, 0))));
  }

  #startWriting(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#writing !== undefined || this.#waiting.length === 0) return;
    const batch = this.#waiting.map(requestEndText);
    this.#waiting = [];
    this.#writing = this.#write(batch).finally(() => {
      this.#writing = undefined;
      if (this.#waiting.length > 0) this.#startWriting(); // came in the meantime
    });
  }

  async #write(batch: readonly string[]): Promise<void> {
    await Promise.all(
      this.#options.sinks.map((sink) => sink.write(batch).catch((error) => this.#failed(sink, error, batch.length))),
    );
  }

  #failed(sink: RecordSink, error: unknown, records: number): void {
    if (records > 0) this.#options.onDropped(records, 'sink_failed');
    this.#options.onFailure(sink.name, error);
  }
}
