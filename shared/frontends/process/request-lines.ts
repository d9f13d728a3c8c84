import type { PipelineObserver } from '../../pipeline/index.ts';
import type { Logger } from '../../telemetry/index.ts';

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
