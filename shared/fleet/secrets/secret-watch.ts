import type { Clock } from '../../clock/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import type { Secrets } from './secrets.ts';

export interface SecretWatchOptions {
  readonly clock: Clock;
  /** Age at which the secrets are read again. */
  readonly ageMsMax: number;
  readonly logger: Logger;
}

/** Notices that a secret was rotated, when it is asked to look. */
export class SecretWatch {
  readonly #secrets: Secrets;
  readonly #options: SecretWatchOptions;
  #readAtMs: number;
  #isOutdated = false;

  constructor(secrets: Secrets, options: SecretWatchOptions) {
    this.#secrets = secrets;
    this.#options = options;
    this.#readAtMs = options.clock.nowMs();
  }

  /** A secret says something else than what the process runs on. */
  get isOutdated(): boolean {
    return this.#isOutdated;
  }

  /** Reads the secrets again where that was too long ago. Never rejects: what cannot be read is as it was. */
  async look(): Promise<void> {
    const { clock, ageMsMax, logger } = this.#options;
    if (this.#isOutdated || clock.nowMs() - this.#readAtMs < ageMsMax) return;
    this.#readAtMs = clock.nowMs();
    try {
      this.#isOutdated = await this.#secrets.haveChanged();
      if (this.#isOutdated) logger.info('a secret was rotated');
    } catch (thrown) {
      logger.warn('secrets cannot be read again; those of before stand', { reason: reasonOf(thrown) });
    }
  }
}
