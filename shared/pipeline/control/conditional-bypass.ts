import { bypassesRemotePrefill, type ConditionalDisaggregation } from '../../router/index.ts';
import type { CandidateRecord, ExplanationRecord } from '../../router/scheduler/index.ts';
import type { Worker } from '../models/model-directory.ts';
import type { Bypass } from '../run/prefill-stage.ts';
import type { ExplanationSource } from './routing-explainer.ts';

/**
 * Asks the router where both legs would go now, and decides by that. Where it does not answer, or would
 * place nothing, nothing is bypassed.
 */
export function conditionalBypass(
  rule: ConditionalDisaggregation,
  { explain }: Pick<ExplanationSource, 'explain'>,
): Bypass {
  return async (prefill, decode) => {
    let answers: readonly [ExplanationRecord, ExplanationRecord];
    try {
      answers = await Promise.all([explain(prefill.request), explain(decode.request)]);
    } catch {
      return false; // the way without a bypass needs no facts
    }
    const [forPrefill, forDecode] = answers;
    const [near, far] = [chosenIn(forPrefill, prefill.workers), chosenIn(forDecode, decode.workers)];
    if (far === undefined) return false;
    const { device, host_pinned, disk } = far.candidate.overlap;
    return bypassesRemotePrefill(rule, {
      promptTokens: forDecode.prompt_tokens,
      cachedTokens: (device + host_pinned + disk) * decode.request.pool.blockSizeTokens,
      prefill: near && {
        activeTokens: near.candidate.load.prefill_tokens,
        batchedTokens: near.worker?.maxNumBatchedTokens ?? Number.POSITIVE_INFINITY,
      },
      decode:
        far.worker?.totalKvBlocks === undefined
          ? undefined
          : { activeBlocks: far.candidate.load.decode_blocks, totalBlocks: far.worker.totalKvBlocks },
    });
  };
}

function chosenIn(
  { chosen, candidates }: ExplanationRecord,
  workers: readonly Worker[],
): { readonly candidate: CandidateRecord; readonly worker: Worker | undefined } | undefined {
  const candidate = candidates.find(
    ({ worker_id: id, dp_rank: rank }) => id === chosen?.worker_id && rank === chosen.dp_rank,
  );
  return candidate && { candidate, worker: workers.find(({ id }) => id === candidate.worker_id) };
}
