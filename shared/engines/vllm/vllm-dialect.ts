import { readFault, workerError } from '../../errors/index.ts';
import type { EngineRequest } from '../../protocol/index.ts';
import { asRecord, type UnknownRecord } from '../../records/index.ts';
import type { Plan } from '../http/exchange.ts';
import { type ListedModel, noSuchModel, readModels } from '../http/openai-wire.ts';
import { asText, jsonOrText, tracingHeaders, type UpstreamMessage } from '../http/upstream.ts';
import type { ListedRank } from '../kv-stream/event-sources.ts';
import { chatFields } from '../server/chat-fields.ts';
import {
  asCount,
  bodyWithIds,
  CHATS,
  type ChatExtras,
  EMBEDDINGS,
  type EngineDialect,
  type EngineServer,
  getRecord,
  mapFields,
  type Probed,
  planEmbedding,
  type StartingServer,
  type TokenRequest,
} from '../server/dialect.ts';
import { readSamples } from '../server/engine-metrics.ts';
import { planEvents } from '../server/followed-events.ts';
import { type LaunchFacts, publisherOf } from '../server/launch-facts.ts';
import { sourceInServerInfo } from '../server/sampling-defaults.ts';
import { type TokenAnswer, TokenReader } from '../server/token-reader.ts';
import type { EngineInfo, EngineSink } from '../types.ts';
import {
  REMOTE_DECODE,
  ROUTING_FIELDS,
  readVllmAnswer,
  routingHeaders,
  SAMPLING_FIELDS,
  vllmConstraint,
} from './vllm-wire.ts';

export interface VllmDialectOptions {
  /** Name of the model in the server. @default the first one that it lists */
  readonly modelName?: string | undefined;
  /** Whether the engine computes prompts and hands their blocks to decode workers. @default false */
  readonly isPrefill?: boolean;
  /** Whether clients' bodies go to the server, which then renders and tokenizes itself. @default false */
  readonly takesText?: boolean;
  /**
   * Whether bodies of chats with media do, as only the engine's own renderer knows where media stand in a prompt.
   * @default false
   */
  readonly takesMedia?: boolean;
  /** Whether it was started with `--enable-prompt-embeds`. @default its server decides for each request */
  readonly takesPromptEmbeds?: boolean | undefined;
  /** Limits from the engine's command line. @default its server reports them if it has that route */
  readonly maxNumSeqs?: number | undefined;
  readonly maxNumBatchedTokens?: number | undefined;
}

type Limits = Pick<EngineInfo, 'maxNumSeqs' | 'maxNumBatchedTokens' | 'samplingSource'>;

const GENERATE = '/inference/v1/generate';
const COMPLETIONS = '/v1/completions';

const SERVER_INFO = '/server_info';
/** Limit of this answer: the server runs some programs to describe its machine first. */
const SERVER_INFO_TIMEOUT_MS = 30_000;

const CACHE_CONFIG = 'vllm:cache_config_info';
const RUNNING = 'vllm:num_requests_running';
const DEFAULT_BLOCK_SIZE = 16;

/** Limit of the first request, which may compile kernels. */
const FIRST_TOKEN_TIMEOUT_MS = 120_000;

/**
 * Dialect of vLLM's server: `/inference/v1/generate` if it has that route with ranks (from 0.22 on), otherwise
 * `/v1/completions`.
 */
export class VllmDialect implements EngineDialect {
  readonly kind = 'vllm';
  readonly deadStatus = 503;
  readonly latencyMetrics = [
    ['vllm:inter_token_latency_seconds_sum', 'vllm:inter_token_latency_seconds_count'],
    ['vllm:time_per_output_token_seconds_sum', 'vllm:time_per_output_token_seconds_count'],
  ] as const;
  readonly loadMetrics = {
    rankLabel: 'engine',
    running: RUNNING,
    waiting: 'vllm:num_requests_waiting',
    usage: ['vllm:kv_cache_usage_perc', 'vllm:gpu_cache_usage_perc'],
  } as const;
  readonly clearKvBlocks = { path: '/reset_prefix_cache' };
  readonly clearsInSilence = true;
  readonly loadLora = '/v1/load_lora_adapter';
  readonly unloadLora = '/v1/unload_lora_adapter';
  readonly #options: VllmDialectOptions;
  #modelName = '';
  #contextLength = 0;
  #hasGenerate = false;
  #countsCached = false;

  constructor(options: VllmDialectOptions) {
    this.#options = options;
  }

  async probe(server: StartingServer, launchFacts: LaunchFacts | undefined): Promise<Probed> {
    const [models, version, openapi, metrics, sources] = await Promise.all([
      server.ask({ path: '/v1/models' }),
      getRecord(server, '/version'),
      getRecord(server, '/openapi.json'),
      server.ask({ path: '/metrics' }),
      getRecord(server, '/kv_event_sources'),
    ]);
    const model = this.#choose(readModels(models.text));
    const routes = asRecord(openapi?.paths) ?? {};
    const cache = readSamples(metrics.text, new Set([CACHE_CONFIG]))[0]?.labels ?? {};
    const hasCache = cache.enable_prefix_caching !== 'False';
    const events = planEvents({ launchFacts, ...describedIn(sources), hasCache, ranksSeen: ranksIn(metrics.text) });
    this.#modelName = model.id;
    this.#countsCached = launchFacts?.countsCached === true;
    this.#contextLength = model.contextLength ?? 0;
    const embeds = EMBEDDINGS in routes && !(COMPLETIONS in routes);
    const takesRank = events.ranks === 1 || !/^0\.(20|21)\b/.test(asText(version?.version) ?? '');
    // It may hide the list of its routes (`--disable-fastapi-docs`): then a request decides.
    const isLikely = takesRank && (openapi === undefined || GENERATE in routes);
    if (!embeds) this.#hasGenerate = isLikely && (await this.#answersWithIds(server, GENERATE));
    const limits = await this.#limits(server, SERVER_INFO in routes);
    const { takesMedia = false, isPrefill = false } = this.#options;
    const answersChats = !embeds && !isPrefill && (openapi === undefined || CHATS in routes);
    const chatEngine = answersChats ? this.kind : undefined;
    const takesText = this.#options.takesText === true || (!embeds && !(await this.#givesIds(server)));
    return {
      info: {
        contextLength: model.contextLength,
        kvBlockSizeTokens: blockSizeIn(cache, launchFacts),
        totalKvBlocks: asCount(cache.num_gpu_blocks) ?? 0,
        ...limits,
        ...(this.#hasGenerate ? {} : { fillsInSampling: true }),
        dataParallelSize: events.ranks,
        modelInput: takesText ? 'Text' : 'Tokens',
        modelType: embeds ? ['Embedding'] : takesText ? ['Chat'] : ['Chat', 'Completions'],
        ...(takesMedia && !embeds && !takesText ? { takesMediaChats: true } : {}),
        ...(chatEngine === undefined ? {} : { chatEngine }),
        ...(this.#options.takesPromptEmbeds === undefined
          ? {}
          : { takesPromptEmbeds: this.#options.takesPromptEmbeds }),
        ...(asText(version?.version)?.includes('+cpu') === true ? { deviceType: 'cpu' } : {}),
        publishesKvEvents: events.followed !== undefined,
        modelName: model.id,
        ...(model.root === undefined ? {} : { modelPath: model.root }),
      },
      events,
      version: asText(version?.version),
      ways: {
        tokens: embeds ? EMBEDDINGS : this.#hasGenerate ? GENERATE : COMPLETIONS,
        ...(chatEngine === undefined ? {} : { chats: CHATS }),
      },
    };
  }

  plan(request: TokenRequest, sink: EngineSink): Plan {
    if (request.multiModalData !== undefined) {
      throw workerError('NotImplemented', 'this model takes no media: its workers need --enable-multimodal');
    }
    const model = request.routing.lora_name ?? this.#modelName;
    const headers = { ...tracingHeaders(request), ...routingHeaders(request) };
    if (request.embedding !== undefined) {
      return planEmbedding(request, sink, headers, { model, encoding_format: 'base64' });
    }
    const isPrefill = this.#options.isPrefill === true && request.isHealthCheck !== true;
    // Neither route streams the parameters of a prefill, and one does not stream log probabilities of the prompt.
    const isStream = !isPrefill && request.output.prompt_logprobs === undefined;
    const routing = mapFields(ROUTING_FIELDS, request, 'vLLM');
    const common = {
      model,
      request_id: request.id,
      stream: isStream,
      ...(isStream ? { stream_options: { include_usage: true } } : {}),
      ...routing,
      ...(isPrefill ? { kv_transfer_params: REMOTE_DECODE } : {}),
    };
    const sampling = this.#samplingOf(request, isPrefill);
    const { tokenIds, promptEmbeds } = request.input;
    const usesGenerate = this.#hasGenerate && promptEmbeds === undefined;
    const path = usesGenerate ? GENERATE : COMPLETIONS;
    const body = usesGenerate
      ? bodyWithIds('token_ids', tokenIds, {
          ...common,
          sampling_params: { ...sampling, detokenize: false, ...extra('extra_args', request) },
        })
      : completionsBody(tokenIds, promptEmbeds, {
          ...common,
          ...sampling,
          ...idOptions(request),
          ...extra('vllm_xargs', request),
        });
    const reader = new TokenReader({
      request,
      sink,
      idsMarker: '"token_ids":[',
      read: (answer) => readVllmAnswer(answer, this.#countsCached),
      prefillResult: isPrefill ? prefillResult : undefined,
    });
    return { message: { path, body, headers }, reader };
  }

  planChat(request: EngineRequest): ChatExtras {
    return {
      fields: { ...mapFields(ROUTING_FIELDS, request, 'vLLM'), ...chatFields(request, vllmConstraint) },
      headers: { ...tracingHeaders(request), ...routingHeaders(request) },
    };
  }

  sleep(level: number): UpstreamMessage {
    return { path: `/sleep?level=${level}` };
  }

  wake(tags: readonly string[]): UpstreamMessage {
    const query = tags.map((tag) => `tags=${encodeURIComponent(tag)}`).join('&');
    return { path: query === '' ? '/wake_up' : `/wake_up?${query}` };
  }

  /** Returns the configured limits; asks the engine for the missing ones if it has the route. */
  async #limits(server: StartingServer, hasRoute: boolean): Promise<Limits> {
    const { maxNumSeqs, maxNumBatchedTokens } = this.#options;
    const isKnown = maxNumSeqs !== undefined && maxNumBatchedTokens !== undefined;
    const said = hasRoute && !isKnown ? await configOf(server) : undefined;
    const scheduler = asRecord(said?.scheduler_config);
    return {
      maxNumSeqs: maxNumSeqs ?? asCount(scheduler?.max_num_seqs),
      maxNumBatchedTokens: maxNumBatchedTokens ?? asCount(scheduler?.max_num_batched_tokens),
      ...sourceInServerInfo(said),
    };
  }

  #choose(models: readonly ListedModel[]): ListedModel {
    const wanted = this.#options.modelName;
    const bases = models.filter(({ parent }) => parent === undefined);
    const model = wanted === undefined ? bases[0] : models.find(({ id }) => id === wanted);
    if (model !== undefined) return model;
    throw noSuchModel(models, wanted);
  }

  /**
   * Returns whether answers have token ids. Rejects if an engine that must give them does not, and takes no chats
   * either.
   */
  async #givesIds(server: EngineServer): Promise<boolean> {
    if (this.#hasGenerate || this.#options.takesText) return true;
    if (await this.#answersWithIds(server, COMPLETIONS)) return true;
    if (this.#options.takesMedia) return false;
    throw new Error(
      'the engine gives no token ids: it needs vLLM 0.12 or later (return_token_ids), or attach it with --engine openai',
    );
  }

  /** Requests one token: a server may list a route that it cannot serve. Rejects when the engine itself is broken. */
  async #answersWithIds(server: EngineServer, path: string): Promise<boolean> {
    const common = { model: this.#modelName, stream: false };
    const body =
      path === GENERATE
        ? { ...common, token_ids: [1], sampling_params: { max_tokens: 1, detokenize: false } }
        : { ...common, prompt: [1], max_tokens: 1, return_token_ids: true };
    const { status, text } = await server.ask({ path, body: JSON.stringify(body) }, FIRST_TOKEN_TIMEOUT_MS);
    if (status >= 500) {
      throw new Error(
        `the engine answered its first request with ${status}: ${readFault(jsonOrText(text), 'no reason').message}`,
      );
    }
    return status === 200 && /"token_ids":\s*\[\s*\d/.test(text);
  }

  #samplingOf(request: TokenRequest, isPrefill: boolean): Readonly<Record<string, unknown>> {
    const fields = mapFields(SAMPLING_FIELDS, request, 'vLLM');
    if (isPrefill) return { ...fields, min_tokens: 1, max_tokens: 1 };
    const { n = 1, temperature } = request.sampling;
    // vLLM refuses several greedy choices; drawing only from the likeliest token is the same.
    if (n > 1 && temperature === 0) Object.assign(fields, { temperature: 1, top_k: 1 });
    const left = this.#contextLength - request.input.tokenIds.length;
    // Absent it would be 16 on one route and the rest of the context on the other.
    const tokensMax = request.stop.max_tokens ?? (this.#contextLength > 0 ? Math.max(1, left) : undefined);
    return tokensMax === undefined ? fields : { ...fields, max_tokens: tokensMax };
  }
}

/**
 * Returns the options for ids: otherwise `/v1/completions` gives only text, or names tokens by text that may be half a
 * character.
 */
function idOptions(request: EngineRequest): Readonly<Record<string, unknown>> {
  return {
    return_token_ids: true,
    skip_special_tokens: false,
    ...(request.output.logprobs === undefined ? {} : { return_tokens_as_token_ids: true }),
  };
}

function completionsBody(
  ids: Uint32Array,
  promptEmbeds: string | undefined,
  fields: Readonly<Record<string, unknown>>,
): string {
  return promptEmbeds === undefined
    ? bodyWithIds('prompt', ids, fields)
    : JSON.stringify({ prompt_embeds: promptEmbeds, ...fields });
}

function extra(name: string, { extraArgs }: EngineRequest): Readonly<Record<string, unknown>> {
  return extraArgs === undefined || Object.keys(extraArgs).length === 0 ? {} : { [name]: extraArgs };
}

function prefillResult({ kvTransferParams }: TokenAnswer): unknown {
  return kvTransferParams === undefined ? {} : { kv_transfer_params: kvTransferParams };
}

/**
 * Returns the publishers that the server describes (`/kv_event_sources`, from 0.31 on), each with the ports of its own
 * rank.
 */
function describedIn(sources: UnknownRecord | undefined) {
  const ranks = Object.entries(sources ?? {}).flatMap(([rank, value]) => {
    const source = publisherOf(asRecord(value) ?? {}, 'vllm');
    return source === undefined ? [] : [[Number(rank), source] as const];
  });
  return { described: ranks[0]?.[1], listed: new Map<number, ListedRank>(ranks) };
}

/** Returns the server's settings, from a development route of all releases; undefined if it does not report them. */
async function configOf(server: StartingServer): Promise<UnknownRecord | undefined> {
  const message = { path: `${SERVER_INFO}?config_format=json` };
  // the card works without them
  const answer = await server.askOnce(message, SERVER_INFO_TIMEOUT_MS).catch(() => undefined);
  const said = answer?.status === 200 ? asRecord(jsonOrText(answer.text)) : undefined;
  return asRecord(said?.vllm_config);
}

/**
 * Returns the tokens of a block in KV events. Releases such as 0.32 report it. Earlier ones report the block of one
 * rank of context parallelism, whose ranks share each block of the events.
 */
function blockSizeIn(cache: Readonly<Record<string, string>>, launchFacts: LaunchFacts | undefined): number {
  const ofRank = asCount(cache.block_size) ?? DEFAULT_BLOCK_SIZE;
  return asCount(cache.effective_attention_block_size) ?? ofRank * (launchFacts?.contextRanks ?? 1);
}

/** Counts the ranks with metrics of their own. */
function ranksIn(metrics: string): number {
  return new Set(readSamples(metrics, new Set([RUNNING])).map(({ labels }) => labels.engine)).size;
}
