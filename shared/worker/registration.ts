import type { Clock } from '../clock/index.ts';
import { Semaphore, withDeadline } from '../concurrency/index.ts';
import type { Discovery, DiscoveryRecord } from '../discovery/index.ts';
import { reasonOf } from '../errors/index.ts';
import type { Logger } from '../telemetry/index.ts';

export interface RegistrationOptions {
  readonly discovery: Discovery;
  /** In the order of writing: a card whose endpoint is absent is unusable. */
  readonly records: readonly DiscoveryRecord[];
  readonly clock: Clock;
  readonly logger: Logger;
  /** For each record that is written again or removed. */
  readonly writeTimeoutMs: number;
}

/** Longer than any store tries by itself, so that a start that fails tells the store's own reason. */
const FIRST_WRITE_TIMEOUT_MS = 15_000;
/** Pause before writing again what could not be written. */
const RETRY_MS = 1000;

/**
 * The worker's records in discovery. What is wanted may change at any time; changes are carried out one after the other and
 * the last wish wins. Writing that failed is tried again; removal is not, as the lease ends the records anyway.
 */
export class Registration {
  readonly #options: RegistrationOptions;
  readonly #records: DiscoveryRecord[];
  #isWanted = false;
  /** Undefined when a change broke off in the middle. */
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
      if (written === 0) this.#isWritten = false; // nothing to take back: what arrives late ends with the lease
      throw thrown;
    }
    this.#isWritten = true;
  }

  /** Removes the records, the last one first. A failure is logged. */
  withdraw(): Promise<void> {
    this.#isWanted = false;
    return this.#reconcileNext();
  }

  /** Writes the records again after a withdrawal. A failure is logged, and writing tried again until it works. */
  restore(): Promise<void> {
    this.#isWanted = true;
    return this.#reconcileNext();
  }

  /** One more record from now on. Rejects with the store's failure; the record is wanted all the same. */
  add(record: DiscoveryRecord): Promise<void> {
    this.#records.push(record);
    return this.#change('put', record);
  }

  /** Another record in the place of one, under the same name. A failure is logged: whoever looks sees the older one until the next change. */
  async replace(older: DiscoveryRecord, record: DiscoveryRecord): Promise<void> {
    const at = this.#records.indexOf(older);
    if (at >= 0) this.#records[at] = record;
    try {
      await this.#change('put', record);
    } catch (thrown) {
      this.#options.logger.warn('a record could not be written', { type: record.type, reason: reasonOf(thrown) });
    }
  }

  /** One record less from now on. Rejects with the store's failure. */
  drop(record: DiscoveryRecord): Promise<void> {
    const at = this.#records.indexOf(record);
    if (at >= 0) this.#records.splice(at, 1);
    return this.#change('remove', record);
  }

  /** While the others are withdrawn there is nothing to change in the store. */
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
