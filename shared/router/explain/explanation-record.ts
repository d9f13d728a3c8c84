import type { CandidateExplanation, Explanation } from '../scheduler/scheduler-types.ts';

/** An explanation as operators read it: on HTTP, on the request plane and, but for its encoding, by gRPC. */
export interface ExplanationRecord {
  readonly request_id: string;
  readonly cost_model: 'dynamo' | 'stator';
  readonly prompt_tokens: number;
  readonly blocks: number;
  readonly temperature: number;
  readonly waited_ms: number;
  /** Null when nobody could take the request; then `failure` says why. */
  readonly chosen: { readonly worker_id: string; readonly dp_rank: number; readonly reason: string } | null;
  readonly failure: string | null;
  /** Cheapest first. */
  readonly candidates: readonly CandidateRecord[];
  /** The same of the prefill worker; only where the prompt is computed apart from the answer. */
  readonly prefill?: ExplanationRecord;
}

/** One candidate. Blocks unless named otherwise. */
export interface CandidateRecord {
  /** Hex. */
  readonly worker_id: string;
  readonly dp_rank: number;
  readonly cost: number;
  /** What it has cached of the prompt, by tier; each tier goes on from the one before. */
  readonly overlap: {
    readonly device: number;
    readonly host_pinned: number;
    readonly disk: number;
    readonly shared: number;
  };
  readonly load: {
    readonly prefill_tokens: number;
    readonly decode_blocks: number;
    /** What the request would add to those. */
    readonly added_blocks: number;
    readonly requests: number;
  };
  /** Parts of the cost; they add up to it before `factor`. */
  readonly terms: Readonly<Record<string, number>>;
  /** What preferred taints multiply the cost by. */
  readonly factor: number;
}

export function explanationRecord(explanation: Explanation): ExplanationRecord {
  const { chosen, failure, prefill } = explanation;
  return {
    request_id: explanation.requestId,
    cost_model: explanation.costModel,
    prompt_tokens: explanation.promptTokens,
    blocks: explanation.blocks,
    temperature: explanation.temperature,
    waited_ms: explanation.waitedMs,
    chosen: chosen === undefined ? null : { worker_id: chosen.workerId, dp_rank: chosen.dpRank, reason: chosen.reason },
    failure: failure ?? null,
    candidates: explanation.candidates.map(candidateRecord),
    ...(prefill === undefined ? {} : { prefill: explanationRecord(prefill) }),
  };
}

function candidateRecord(candidate: CandidateExplanation): CandidateRecord {
  return {
    worker_id: candidate.workerId,
    dp_rank: candidate.dpRank,
    cost: candidate.cost,
    overlap: {
      device: candidate.deviceBlocks,
      host_pinned: candidate.hostBlocks,
      disk: candidate.diskBlocks,
      shared: candidate.sharedBlocks,
    },
    load: {
      prefill_tokens: candidate.activePrefillTokens,
      decode_blocks: candidate.activeDecodeBlocks,
      added_blocks: candidate.addedBlocks,
      requests: candidate.activeRequests,
    },
    terms: Object.fromEntries(Object.entries(candidate.terms).map(([name, part]) => [toSnakeCase(name), part])),
    factor: candidate.factor,
  };
}

function toSnakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
