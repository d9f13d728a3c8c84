import type { Clock } from '../clock/index.ts';
import { reasonOf } from '../errors/index.ts';
import type { StartPhase } from '../protocol/index.ts';
import type { Logger } from '../telemetry/index.ts';

/** One part of what must be on a machine before its workers can start. */
export interface PreparationPart {
  readonly phase: Extract<StartPhase, 'image' | 'weights'>;
  /** Whether the workers can start without it, though more slowly. */
  readonly isOptional: boolean;
  run(signal: AbortSignal): Promise<void>;
}

interface PreparationOptions {
  readonly parts: readonly PreparationPart[];
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  onPhase(phase: StartPhase): void;
  /** Called when it has ended. */
  onChange(): void;
}

const TRIES_MAX = 4;
const FIRST_PAUSE_MS = 2000;

/** Fetches image and weights, once. Retries required parts, because registries and buckets refuse bursts. */
export class Preparation {
  readonly #options: PreparationOptions;
  #status: 'idle' | 'running' | 'done' | 'failed' = 'idle';

  constructor(options: PreparationOptions) {
    this.#options = options;
  }

  get status(): 'idle' | 'running' | 'done' | 'failed' {
    return this.#status;
  }

  /** Begins, unless it has begun. */
  begin(): void {
    if (this.#status !== 'idle') return;
    this.#status = 'running';
    void this.#run(); // never rejects
  }

  async #run(): Promise<void> {
    const { parts, logger, signal, onPhase, onChange } = this.#options;
    let outcome: 'done' | 'failed' = 'done';
    for (const part of parts) {
      onPhase(part.phase);
      try {
        await this.#try(part);
      } catch (thrown) {
        if (signal.aborted) return;
        const facts = { part: part.phase, reason: reasonOf(thrown) };
        if (part.isOptional) logger.warn('going on without a part of the start', facts);
        else {
          logger.error('the start cannot be prepared', facts);
          outcome = 'failed';
          break;
        }
      }
    }
    this.#status = outcome;
    onChange();
  }

  async #try({ phase, isOptional, run }: PreparationPart): Promise<void> {
    const { clock, logger, signal } = this.#options;
    for (let attempt = 1; ; attempt++) {
      try {
        return await run(signal);
      } catch (thrown) {
        if (isOptional || signal.aborted || attempt === TRIES_MAX) throw thrown;
        logger.warn('trying again to prepare the start', { part: phase, attempt, reason: reasonOf(thrown) });
        await clock.sleep(FIRST_PAUSE_MS * 2 ** (attempt - 1), signal);
      }
    }
  }
}
