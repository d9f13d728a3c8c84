import type { Clock } from '../clock/index.ts';
import { Semaphore, withDeadline } from '../concurrency/index.ts';
import type { Discovery, DiscoveryRecord } from '../discovery/index.ts';
import { reasonOf } from '../errors/index.ts';
import type { Logger } from '../telemetry/index.ts';

export interface RegistrationOptions {
  readonly discovery: Pick<Discovery, 'backend' | 'put' | 'remove'>;
  /** Records in the order of writing: a card whose endpoint is absent is useless. */
  readonly records: readonly DiscoveryRecord[];
  readonly clock: Clock;
  readonly logger: Logger;
  /** Time limit for each record that is written again or removed, in milliseconds. */
  readonly writeTimeoutMs: number;
}

/**
 * Time limit of a first write, in milliseconds. It is longer than a store's own attempts, so that a failed start
 * reports the store's own reason.
 */
const FIRST_WRITE_TIMEOUT_MS = 15_000;
/** Pause before a failed write is repeated, in milliseconds. */
const RETRY_MS = 1000;

/**
 * The worker's records in discovery. The wanted state may change at any time. Changes are carried out one after the
 * other, and the last wanted state wins. Failed writes are repeated. Failed removals are not repeated, because the
 * lease ends the records anyway.
 */
export class Registration {
  readonly #options: RegistrationOptions;
  readonly #records: DiscoveryRecord[];
  #isWanted = false;
  /** Whether the records are written; undefined if a change broke off in the middle. */
  #isWritten: boolean | undefined = false;
  readonly #changes = new Semaphore(1);

  constructor(options: RegistrationOptions) {
    this.#options = options;
    this.#records = [...options.records];
  }

  /** Writes the records for the first time. Rejects with the store's failure. */
  async register(signal: AbortSignal): Promise<void> {
    this.#isWanted = true;
    this.#isWritten = undefined;
    let written = 0;
    try {
      for (const record of this.#records) {
        await this.#write('put', record, FIRST_WRITE_TIMEOUT_MS, signal);
        written++;
      }
    } catch (thrown) {
      if (written === 0) this.#isWritten = false; // nothing to remove: a write that arrives late ends with the lease
      throw thrown;
    }
    this.#isWritten = true;
  }

  /** Removes the records, the last one first. Logs a failure. */
  withdraw(): Promise<void> {
    this.#isWanted = false;
    return this.#reconcileNext();
  }

  /** Writes the records again after a withdrawal. Logs a failure, and repeats the writing until it works. */
  restore(): Promise<void> {
    this.#isWanted = true;
    return this.#reconcileNext();
  }

  /** Adds a record. Rejects with the store's failure, but the record stays wanted, and may be added again. */
  add(record: DiscoveryRecord): Promise<void> {
    if (!this.#records.includes(record)) this.#records.push(record);
    return this.#change('put', record);
  }

  /**
   * Replaces a record by another under the same name. Logs a failure; readers then see the older record until the next
   * change.
   */
  async replace(older: DiscoveryRecord, record: DiscoveryRecord): Promise<void> {
    const at = this.#records.indexOf(older);
    if (at >= 0) this.#records[at] = record;
    try {
      await this.#change('put', record);
    } catch (thrown) {
      this.#options.logger.warn('a record could not be written', { type: record.type, reason: reasonOf(thrown) });
    }
  }

  /** Removes a record. Rejects with the store's failure. */
  drop(record: DiscoveryRecord): Promise<void> {
    const at = this.#records.indexOf(record);
    if (at >= 0) this.#records.splice(at, 1);
    return this.#change('remove', record);
  }

  /** Changes one record in the store. While the records are withdrawn there is nothing to change. */
  #change(verb: 'put' | 'remove', record: DiscoveryRecord): Promise<void> {
    return this.#changes.run(async () => {
      if (this.#isWritten === true) await this.#write(verb, record, this.#options.writeTimeoutMs);
    });
  }

  #reconcileNext(): Promise<void> {
    return this.#changes.run(() => this.#reconcile());
  }

  async #reconcile(): Promise<void> {
    const isWanted = this.#isWanted;
    if (isWanted === this.#isWritten) return;
    const { logger, clock, writeTimeoutMs } = this.#options;
    const records = this.#records;
    this.#isWritten = undefined;
    try {
      if (isWanted) for (const record of records) await this.#write('put', record, writeTimeoutMs);
      else for (const record of records.toReversed()) await this.#write('remove', record, writeTimeoutMs);
      this.#isWritten = isWanted;
    } catch (thrown) {
      logger.warn(`records could not be ${isWanted ? 'written' : 'removed'}`, { reason: reasonOf(thrown) });
      if (isWanted) clock.after(RETRY_MS, () => void this.#reconcileNext());
    }
  }

  #write(verb: 'put' | 'remove', record: DiscoveryRecord, timeoutMs: number, signal?: AbortSignal): Promise<void> {
    const { discovery, clock } = this.#options;
    const lateMessage = `writing to discovery (${discovery.backend}) took more than ${timeoutMs} ms`;
    return withDeadline({ clock, timeoutMs, signal, lateMessage }, (limited) => discovery[verb](record, limited));
  }
}
