import type { Clock } from '../../clock/index.ts';
import { ServeError } from '../../errors/index.ts';
import { ENDPOINTS, type GenerationRequest } from '../../protocol/index.ts';
import type { RouteRequest } from '../../router/index.ts';
import {
  bypassesRemotePrefill,
  type CandidateRecord,
  type ConditionalDisaggregation,
  decodeOverride,
  type ExplanationRecord,
} from '../../scheduler/index.ts';
import type { PromptEncoder } from '../../tokens/index.ts';
import type { LiveModelDirectory } from '../models/model-directory.ts';
import { modelNotFound } from '../models/model-errors.ts';
import type { ModelStore } from '../models/model-store.ts';
import type { RoutableModel, Worker } from '../models/routable-model.ts';
import { describeSet, setsFor } from '../models/worker-sets.ts';
import { MediaMemory } from '../prompt/media-memory.ts';
import { preprocess, withCardDefaults } from '../prompt/preprocess.ts';
import { type Bypass, prefillRouting } from '../run/prefill-stage.ts';

/** A source of explanations why requests go to their workers: this process's router, or a resident router. */
export interface ExplanationSource {
  /** Returns the explanation of one of the last requests; undefined for other requests. */
  explained(requestId: string): Promise<ExplanationRecord | undefined>;
  /** Returns what the router would decide now, without a reservation. */
  explain(request: RouteRequest): Promise<ExplanationRecord>;
}

export interface RoutingExplainerOptions {
  readonly models: LiveModelDirectory;
  readonly store: ModelStore;
  readonly encoder: PromptEncoder;
  /** Memory of what engines made of media. @default an empty one */
  readonly media?: MediaMemory;
  readonly clock: Clock;
  readonly source: ExplanationSource;
  /** Whether decode workers may compute prompts themselves, so that blocks in their caches count. @default false */
  readonly isConditional?: boolean;
}

const NO_WORKERS: ReadonlySet<string> = new Set();

/** Explains why a request went to its worker, and where a prompt would go now. */
export class RoutingExplainer {
  readonly #options: RoutingExplainerOptions;

  constructor(options: RoutingExplainerOptions) {
    this.#options = options;
  }

  explained(requestId: string): Promise<ExplanationRecord | undefined> {
    return this.#options.source.explained(requestId);
  }

  /**
   * Returns where `asked` would go, and where its prompt would be computed. If it may go to one of several worker sets,
   * the one with the most workers comes first, and the explanation has those of the others. Rejects with the ServeError
   * with which `Pipeline.generate` would fail before it routes. Rejects with `not_implemented` for models whose prompts
   * only their workers can read.
   */
  async explain(asked: GenerationRequest): Promise<ExplanationRecord> {
    const { models } = this.#options;
    const model = models.find(asked.model);
    if (model === undefined) {
      throw modelNotFound(models.list(), { name: asked.model, param: 'model', refused: models.refused() });
    }
    const sets = setsFor(model, { type: ENDPOINTS[asked.endpoint].modelType, routing: asked.routing });
    const readable = (sets.length === 0 ? [model] : sets).filter(({ card }) => card.model_input === 'Tokens');
    if (readable.length === 0) {
      throw new ServeError('not_implemented', `model \`${asked.model}\` takes text: only its workers know its blocks`);
    }
    const [most, ...others] = await Promise.all(
      readable
        .toSorted((one, other) => other.workers.length - one.workers.length)
        .map(async (set): Promise<ExplanationRecord> => {
          const explanation = await this.#explainIn(set, asked);
          const described = describeSet(model, set);
          return described === undefined ? explanation : { ...explanation, worker_set: described };
        }),
    );
    return { ...(most as ExplanationRecord), ...(others.length > 0 && { other_sets: others }) }; // one is readable
  }

  async #explainIn(set: RoutableModel, asked: GenerationRequest): Promise<ExplanationRecord> {
    const { store, encoder, clock, source, isConditional = false } = this.#options;
    const { media: memory = new MediaMemory() } = this.#options;
    const request = withCardDefaults(asked, set.card, true);
    const tools = { encoder, media: memory, clock, observer: {} };
    const { request: ready, media } = await preprocess(request, set, await store.get(set), tools);
    const tokenIds = ready.input.kind === 'tokens' ? ready.input.tokenIds : undefined;
    const { id, routing, routerConfigOverride: override } = ready;
    const prompt = media && { prompt: media.hashedFor(set.pool, routing), home: media.home };
    const asIs: RouteRequest = { id, pool: set.pool, routing, override, tokenIds, ...prompt, excluded: NO_WORKERS };
    const { prefill } = set;
    if (prefill === undefined) return source.explain(asIs);
    const toPrefill = { ...asIs, pool: prefill.pool, routing: prefillRouting(routing, prefill.workers) };
    const toDecode = { ...asIs, override: decodeOverride(override, isConditional) };
    const [computed, answered] = await Promise.all([source.explain(toPrefill), source.explain(toDecode)]);
    return { ...answered, prefill: computed };
  }
}

/**
 * Asks the router where both stages would go now, and decides by the answer whether to bypass prefill. Does not bypass
 * it if the router does not answer or finds no worker.
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
      return false; // without an answer, a prefill worker computes the prompt
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
