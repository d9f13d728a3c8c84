import type { PipelineObserver } from '../../pipeline/index.ts';
import type { FrontendMetrics, Logger } from '../../telemetry/index.ts';

/** Workers that are remembered as told; what comes after them is counted and no longer told. */
const TOLD_MAX = 1000;

/** Lines of what becomes of requests: a move to another worker is worth knowing, each sending only when somebody looks. */
export function logRequests(logger: Logger): Required<Pick<PipelineObserver, 'sent' | 'moved'>> {
  return {
    sent({ requestId, model, workerId, prefillWorkerId, dpRank, promptTokens, cachedTokens, attempt }) {
      logger.debug('request goes to a worker', {
        model,
        worker: workerId,
        prefill_worker: prefillWorkerId,
        dp_rank: dpRank,
        prompt_tokens: promptTokens,
        cached_tokens: cachedTokens,
        attempt,
        request_id: requestId,
      });
    },
    moved({ requestId, model, workerId, reason, outputTokens }) {
      const line = { model, worker: workerId, reason, output_tokens: outputTokens };
      logger.info('request moves to another worker', line, { ...line, request_id: requestId });
    },
  };
}

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

/** `observer`, with a line for the time of each preprocessing function (`--dyn-debug-perf`). */
export function logPreprocessing(
  observer: Pick<PipelineObserver, 'stage' | 'template' | 'tokenize'>,
  log: Logger,
): Pick<PipelineObserver, 'stage' | 'template' | 'tokenize'> {
  const tell = (name: string, ms: number): void =>
    log.info('time', { function: name, ms: Math.round(ms * 1000) / 1000 });
  return {
    stage(stage, ms) {
      if (stage === 'preprocess') tell(stage, ms);
      observer.stage(stage, ms);
    },
    template(ms) {
      tell('render_template', ms);
      observer.template(ms);
    },
    tokenize(ms) {
      tell('tokenize', ms);
      observer.tokenize(ms);
    },
  };
}
