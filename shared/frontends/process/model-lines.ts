import type { RoutableModel } from '../../pipeline/index.ts';
import type { Logger } from '../../telemetry/index.ts';

interface KnownModel {
  readonly isReady: boolean;
  readonly workers: ReadonlySet<string>;
}

/** Lines of models that come and go, and for who asks for details of their workers. */
export class ModelLines {
  readonly #logger: Logger;
  #known: ReadonlyMap<string, KnownModel> = new Map();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** These are all models now. */
  changed(models: readonly RoutableModel[]): void {
    const before = this.#known;
    const now = new Map(models.map((model) => [model.name, knownOf(model)] as const));
    this.#known = now;
    for (const { name: model, readiness, workers, prefill } of models) {
      const was = before.get(model);
      const prefillWorkers = prefill?.workers.length;
      if (readiness.isReady && !was?.isReady) {
        this.#logger.info('model is served', { model, workers: workers.length, prefill_workers: prefillWorkers });
      } else if (was?.isReady && !readiness.isReady) {
        this.#logger.info('model is served no more', { model, reason: readiness.reason });
      }
      this.#tellWorkers(model, was?.workers ?? NOBODY, now.get(model)?.workers ?? NOBODY);
    }
    for (const [model, was] of before) {
      if (now.has(model)) continue;
      if (was.isReady) this.#logger.info('model is served no more', { model, reason: 'its last worker has left' });
      this.#tellWorkers(model, was.workers, NOBODY);
    }
  }

  #tellWorkers(model: string, before: ReadonlySet<string>, now: ReadonlySet<string>): void {
    const workers = now.size;
    for (const worker of now) if (!before.has(worker)) this.#logger.debug('worker joins', { model, worker, workers });
    for (const worker of before) if (!now.has(worker)) this.#logger.debug('worker leaves', { model, worker, workers });
  }
}

const NOBODY: ReadonlySet<string> = new Set();

function knownOf({ readiness, workers, prefill }: RoutableModel): KnownModel {
  const all = [...workers, ...(prefill?.workers ?? [])];
  return { isReady: readiness.isReady, workers: new Set(all.map(({ id }) => id)) };
}
