import type { PipelineObserver } from '../../pipeline/index.ts';
import type { FrontendMetrics, Logger } from '../../telemetry/index.ts';

/** Workers that are remembered as told; what comes after them is counted and no longer told. */
const TOLD_MAX = 1000;

/** Tells operators of workers that make more tokens than they were asked for: every time by a count, each worker once by name. */
export function overrunObserver(
  metrics: Pick<FrontendMetrics, 'limitReached'>,
  logger: Logger,
): Required<Pick<PipelineObserver, 'overran'>> {
  const told = new Set<string>();
  return {
    overran: (model, workerId = 'unknown') => {
      metrics.limitReached('output_tokens');
      if (told.has(workerId) || told.size >= TOLD_MAX) return;
      told.add(workerId);
      logger.warn('worker made more tokens than asked for: answers are cut', { model, worker_id: workerId });
    },
  };
}
