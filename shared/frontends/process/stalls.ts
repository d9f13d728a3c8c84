import type { PipelineObserver } from '../../pipeline/index.ts';
import { createStallMetrics, type Logger, type MetricRegistry } from '../../telemetry/index.ts';

/** Tells operators of workers that fall silent. */
export function stallObserver(
  registry: MetricRegistry,
  logger: Logger,
): Pick<PipelineObserver, 'workerStalled' | 'workerRecovered' | 'canary'> {
  const metrics = createStallMetrics(registry);
  return {
    workerStalled: (model, workerId) => {
      metrics.workerStalled(model);
      logger.warn('worker is silent: no new requests until a canary passes', { model, worker_id: workerId });
    },
    workerRecovered: (model, workerId) => {
      metrics.workerRecovered(model);
      logger.info('worker is no longer in doubt', { model, worker_id: workerId });
    },
    canary: (outcome) => metrics.canary(outcome),
  };
}
