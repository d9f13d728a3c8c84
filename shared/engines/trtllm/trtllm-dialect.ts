import { readFault, workerError } from '../../errors/index.ts';
import { asRecord, parseExact } from '../../records/index.ts';
import type { Plan } from '../http/exchange.ts';
import { noSuchModel, readModels } from '../http/openai-wire.ts';
import { asText, jsonOrText, tracingHeaders } from '../http/upstream.ts';
import {
  asCount,
  bodyWithIds,
  type EngineDialect,
  type EngineServer,
  type EventFeed,
  type FeedDeps,
  getRecord,
  mapFields,
  type Probed,
  type TokenRequest,
} from '../server/dialect.ts';
import { TokenReader } from '../server/token-reader.ts';
import type { EngineInfo, EngineSink } from '../types.ts';
import { PolledEvents } from './polled-events.ts';
import { CONTEXT_ONLY, FIELDS, generationParams, prefillResult, readTrtllmAnswer } from './trtllm-wire.ts';

export interface TrtllmDialectOptions {
  /** Whether clients' bodies go to the server, which then renders and tokenizes itself. @default false */
  readonly takesText?: boolean;
  /** Whether bodies of chats with media do. @default false */
  readonly takesMedia?: boolean;
  /** Whether the engine computes prompts and hands their blocks to decode workers. @default false */
  readonly isPrefill?: boolean;
  /** Whether its KV events are polled: they go to only one reader. @default true */
  readonly followsEvents?: boolean;
  /** Values that the server does not report: the context, and the block size if it keeps no statistics. */
  readonly contextLength?: number | undefined;
  readonly blockSizeTokens?: number | undefined;
  readonly maxNumSeqs?: number | undefined;
  readonly maxNumBatchedTokens?: number | undefined;
}

const COMPLETIONS = '/v1/completions';
/** Limit of the first request, which may compile kernels. */
const FIRST_TOKEN_TIMEOUT_MS = 120_000;
/** TensorRT-LLM's own default. */
const BLOCK_SIZE_TOKENS = 32;

/** Dialect of TensorRT-LLM's server, `trtllm-serve`: ids in and out by `/v1/completions`, KV events by polling. */
export class TrtllmDialect implements EngineDialect {
  readonly kind = 'trtllm';
  readonly deadStatus = 503;
  readonly metricsPath = '/prometheus/metrics';
  readonly latencyMetrics = [
    ['trtllm_time_per_output_token_seconds_sum', 'trtllm_time_per_output_token_seconds_count'],
  ] as const;
  readonly loadMetrics = {
    rankLabel: 'attention_dp_rank',
    running: 'trtllm_num_requests_running',
    waiting: 'trtllm_num_requests_waiting',
    usage: ['trtllm_kv_cache_utilization'],
  } as const;
  readonly #options: TrtllmDialectOptions;
  #modelName = '';

  constructor(options: TrtllmDialectOptions) {
    this.#options = options;
  }

  async probe(server: EngineServer): Promise<Probed> {
    const [models, version] = await Promise.all([server.ask({ path: '/v1/models' }), getRecord(server, '/version')]);
    const name = readModels(models.text)[0]?.id;
    if (name === undefined) throw noSuchModel([], undefined, { hint: 'is it trtllm-serve?' });
    this.#modelName = name;
    const {
      takesText = false,
      takesMedia = false,
      followsEvents = true,
      maxNumSeqs,
      maxNumBatchedTokens,
    } = this.#options;
    if (!takesText) await this.#needIds(server);
    const cache = await cacheOf(server);
    return {
      info: {
        contextLength: this.#options.contextLength,
        kvBlockSizeTokens: this.#options.blockSizeTokens ?? cache.blockSizeTokens ?? BLOCK_SIZE_TOKENS,
        totalKvBlocks: cache.totalKvBlocks ?? 0,
        maxNumSeqs,
        maxNumBatchedTokens,
        dataParallelSize: 1,
        modelInput: takesText ? 'Text' : 'Tokens',
        modelType: takesText ? ['Chat'] : ['Chat', 'Completions'],
        ...(takesMedia && !takesText ? { takesMediaChats: true } : {}),
        publishesKvEvents: followsEvents && !takesText,
        takesPromptEmbeds: false,
        modelName: name,
      },
      events: { ranks: 1, followed: undefined },
      version: asText(version?.version),
      ways: { tokens: COMPLETIONS, ...(followsEvents ? { kv_events: '/kv_cache_events' } : {}) },
    };
  }

  followEvents(
    { kvBlockSizeTokens: blockSizeTokens, publishesKvEvents }: EngineInfo,
    deps: FeedDeps,
  ): EventFeed | undefined {
    return publishesKvEvents ? new PolledEvents({ blockSizeTokens, ...deps }) : undefined;
  }

  plan(request: TokenRequest, sink: EngineSink): Plan {
    const { tokenIds } = request.input;
    if (request.multiModalData !== undefined || request.embedding !== undefined) {
      const what = request.embedding === undefined ? 'media without --enable-multimodal' : 'embeddings';
      throw workerError('NotImplemented', `this engine (TensorRT-LLM) takes no ${what}`);
    }
    const isPrefill = this.#options.isPrefill === true && request.isHealthCheck !== true;
    const isStream = !isPrefill;
    const fields = {
      model: this.#modelName,
      stream: isStream,
      ...(isStream ? { stream_options: { include_usage: true } } : {}),
      detokenize: false,
      ...mapFields(FIELDS, request, 'TensorRT-LLM'),
      ...this.#lengthOf(request, isPrefill),
      ...(isPrefill ? { disaggregated_params: CONTEXT_ONLY } : {}),
    };
    const body = bodyWithIds('prompt', tokenIds, fields);
    const given = generationParams(request);
    const reader = new TokenReader({
      request,
      sink,
      idsMarker: '"token_ids":[',
      read: readTrtllmAnswer,
      prefillResult: isPrefill ? prefillResult : undefined,
      parse: isPrefill ? parseExact : undefined,
    });
    const whole = given === undefined ? body : `${body.slice(0, -1)},"disaggregated_params":${given}}`;
    return { message: { path: COMPLETIONS, body: whole, headers: tracingHeaders(request) }, reader };
  }

  #lengthOf({ stop, input }: TokenRequest, isPrefill: boolean): Readonly<Record<string, number>> {
    if (isPrefill) return { max_tokens: 1, min_tokens: 1 };
    const { contextLength } = this.#options;
    const left = contextLength === undefined ? undefined : Math.max(1, contextLength - input.tokenIds.length);
    const max = stop.max_tokens ?? left;
    return max === undefined ? {} : { max_tokens: max };
  }

  /** Requests one token. Rejects when the engine is broken, or gives only texts. */
  async #needIds(server: EngineServer): Promise<void> {
    const body = { model: this.#modelName, prompt: [1], max_tokens: 1, stream: false, detokenize: false };
    const asked = { path: COMPLETIONS, body: JSON.stringify(body) };
    const { status, text } = await server.ask(asked, FIRST_TOKEN_TIMEOUT_MS);
    if (status === 200 && /"token_ids":\s*\[\s*\d/.test(text)) return;
    if (status === 200) {
      throw new Error(
        'the engine gives no token ids: it needs TensorRT-LLM 1.0 or later, or attach it with --engine openai',
      );
    }
    const reason = readFault(jsonOrText(text), 'no reason').message;
    throw new Error(`the engine answered its first request with ${status}: ${reason}`);
  }
}

/** Returns the cache's size from the statistics of its last steps, if it keeps them. */
async function cacheOf(
  server: EngineServer,
): Promise<{ readonly blockSizeTokens?: number | undefined; readonly totalKvBlocks?: number | undefined }> {
  const { status, text } = await server.ask({ path: '/metrics' });
  const steps = status === 200 ? jsonOrText(text) : undefined;
  const last: unknown = Array.isArray(steps) ? steps.at(-1) : undefined;
  const stats = asRecord(asRecord(last)?.kvCacheStats) ?? {};
  return { blockSizeTokens: asCount(stats.tokensPerBlock), totalKvBlocks: asCount(stats.maxNumBlocks) };
}
