import { encodePrefix, isUnder } from '../keys.ts';
import type { DiscoveryQuery, WatchListener } from '../types.ts';
import { type ReportProblem, WatchTeller } from '../watch-teller.ts';
import type { RecordBook, RecordChange } from './fleet/record-book.ts';

/** One watch of the fleet's records. */
export class RecordWatcher {
  readonly #query: DiscoveryQuery;
  readonly #encodedPrefix: string;
  readonly #teller: WatchTeller;

  constructor(query: DiscoveryQuery, listener: WatchListener, report: ReportProblem) {
    this.#query = query;
    this.#encodedPrefix = encodePrefix(query.prefix);
    this.#teller = new WatchTeller(listener, report);
  }

  /** Tells everything that is there. */
  begin(book: RecordBook): void {
    this.#tell(book.under(this.#query.bucket, this.#encodedPrefix));
  }

  /** A reading was shown, and has changed this. */
  change(changes: readonly RecordChange[]): void {
    const { bucket } = this.#query;
    this.#tell(changes.filter((change) => change.bucket === bucket && isUnder(change.key, this.#encodedPrefix)));
    this.#teller.succeed();
  }

  fail(error: Error): void {
    this.#teller.fail(error);
  }

  close(): void {
    this.#teller.close();
  }

  #tell(changes: readonly RecordChange[]): void {
    for (const { key, record } of changes) {
      this.#teller.event(record === undefined ? { kind: 'removed', key } : { kind: 'added', key, record });
    }
  }
}
