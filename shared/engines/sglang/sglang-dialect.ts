import { workerError } from '../../errors/index.ts';
import type { EngineRequest } from '../../protocol/index.ts';
import { asRecord, type UnknownRecord } from '../../records/index.ts';
import type { Plan } from '../http/exchange.ts';
import { noSuchModel, readModels } from '../http/openai-wire.ts';
import { asText, jsonOrText, tracingHeaders, type UpstreamMessage } from '../http/upstream.ts';
import type { EventSource } from '../kv-stream/event-sources.ts';
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
  type TokenRequest,
} from '../server/dialect.ts';
import { planEvents } from '../server/followed-events.ts';
import { type LaunchFacts, publisherOf } from '../server/launch-facts.ts';
import { sglangSource } from '../server/sampling-defaults.ts';
import { TokenReader } from '../server/token-reader.ts';
import type { EngineSink } from '../types.ts';
import {
  placeFields,
  readSglangAnswer,
  requestFields,
  SAMPLING_FIELDS,
  type SglangAbilities,
  sglangConstraint,
} from './sglang-wire.ts';

export interface SglangDialectOptions {
  /** Whether clients' bodies go to the server, which then renders and tokenizes itself. @default false */
  readonly takesText?: boolean;
}

const GENERATE = '/generate';

/** Dialect of SGLang's server with its native `/generate`. */
export class SglangDialect implements EngineDialect {
  readonly kind = 'sglang';
  readonly latencyMetrics = [
    ['sglang:inter_token_latency_seconds_sum', 'sglang:inter_token_latency_seconds_count'],
    ['sglang:time_per_output_token_seconds_sum', 'sglang:time_per_output_token_seconds_count'],
  ] as const;
  readonly loadMetrics = {
    rankLabel: 'dp_rank',
    running: 'sglang:num_running_reqs',
    waiting: 'sglang:num_queue_reqs',
    usage: ['sglang:token_usage'],
  } as const;
  readonly clearKvBlocks = { path: '/flush_cache' };
  readonly loadLora = '/load_lora_adapter';
  readonly unloadLora = '/unload_lora_adapter';
  readonly #options: SglangDialectOptions;
  #modelName = '';
  #isDisaggregated = false;
  #contextLength = 0;
  #abilities: SglangAbilities = { priority: undefined, saltField: 'extra_key' };

  constructor(options: SglangDialectOptions) {
    this.#options = options;
  }

  async probe(server: EngineServer, launchFacts: LaunchFacts | undefined): Promise<Probed> {
    const [models, modelInfo, serverInfo, openapi] = await Promise.all([
      server.ask({ path: '/v1/models' }),
      eitherRecord(server, '/model_info', '/get_model_info'),
      eitherRecord(server, '/server_info', '/get_server_info'),
      getRecord(server, '/openapi.json'),
    ]);
    const [listed] = readModels(models.text).filter(({ parent }) => parent === undefined);
    const name = asText(modelInfo.served_model_name) ?? listed?.id ?? asText(serverInfo.served_model_name);
    if (name === undefined) throw noSuchModel([], undefined, { hint: 'is it an SGLang server?' });
    const pageSize = asCount(serverInfo.page_size) ?? 1;
    const states: readonly unknown[] = Array.isArray(serverInfo.internal_states) ? serverInfo.internal_states : [];
    const capacity = asCount(serverInfo.max_total_num_tokens) ?? asCount(asRecord(states[0])?.max_total_num_tokens);
    const hasCache = serverInfo.disable_radix_cache !== true;
    const ranksSeen = asCount(serverInfo.dp_size) ?? 1;
    const events = planEvents({ launchFacts, described: sourceOf(serverInfo), hasCache, ranksSeen });
    const { takesText } = this.#options;
    const embeds = modelInfo.is_generation === false;
    this.#modelName = name;
    this.#contextLength = listed?.contextLength ?? asCount(serverInfo.context_length) ?? 0;
    this.#abilities = abilitiesOf(serverInfo, openapi);
    this.#isDisaggregated = ['prefill', 'decode'].includes(String(serverInfo.disaggregation_mode));
    const hasChats = openapi === undefined || CHATS in (asRecord(openapi.paths) ?? {});
    const chatEngine = hasChats && !embeds && !this.#isDisaggregated ? this.kind : undefined;
    const bootstrapPort = asCount(serverInfo.disaggregation_bootstrap_port);
    const modelPath = asText(modelInfo.model_path) ?? asText(serverInfo.model_path);
    return {
      info: {
        contextLength: this.#contextLength || undefined,
        kvBlockSizeTokens: blockSizeIn(serverInfo, pageSize),
        totalKvBlocks: Math.floor((capacity ?? 0) / pageSize),
        maxNumSeqs: seqsOfRank(serverInfo),
        maxNumBatchedTokens: asCount(serverInfo.max_prefill_tokens),
        dataParallelSize: events.ranks,
        modelInput: takesText ? 'Text' : 'Tokens',
        modelType: embeds ? ['Embedding'] : takesText ? ['Chat'] : ['Chat', 'Completions'],
        takesPromptEmbeds: false,
        ...(chatEngine === undefined ? {} : { chatEngine }),
        samplingSource: sglangSource(serverInfo.sampling_defaults, preferredIn(serverInfo)),
        publishesKvEvents: events.followed !== undefined,
        modelName: name,
        ...(modelPath === undefined ? {} : { modelPath }),
        ...(serverInfo.disaggregation_mode !== 'prefill' || bootstrapPort === undefined ? {} : { bootstrapPort }),
      },
      events,
      version: asText(serverInfo.version),
      ways: {
        tokens: embeds ? EMBEDDINGS : GENERATE,
        ...(chatEngine === undefined ? {} : { chats: CHATS }),
      },
    };
  }

  plan(request: TokenRequest, sink: EngineSink): Plan {
    const { promptEmbeds, tokenIds } = request.input;
    if (request.multiModalData !== undefined || promptEmbeds !== undefined) {
      const what =
        promptEmbeds === undefined ? 'media need a model that takes text' : 'prompt embeddings are not supported';
      throw workerError('NotImplemented', `${what} (SGLang)`);
    }
    const headers = tracingHeaders(request);
    if (request.embedding !== undefined) return planEmbedding(request, sink, headers, { model: this.#modelName });
    const { logprobs, prompt_logprobs: promptLogprobs } = request.output;
    const sampling = mapFields(SAMPLING_FIELDS, request, 'SGLang');
    const left = this.#contextLength - tokenIds.length;
    const fields = {
      rid: request.id,
      stream: promptLogprobs === undefined,
      sampling_params: this.#contextLength > 0 ? { max_new_tokens: Math.max(1, left), ...sampling } : sampling,
      ...(logprobs === undefined && promptLogprobs === undefined ? {} : { return_logprob: true }),
      ...(promptLogprobs === undefined ? {} : { logprob_start_len: 0 }),
      ...mapFields(requestFields(this.#abilities), request, 'SGLang'),
    };
    const { bootstrapInfo, isHealthCheck } = request;
    const isPairless = this.#isDisaggregated && isHealthCheck === true && bootstrapInfo === undefined;
    const paired = isPairless ? { ...fields, ...NO_PEER } : fields;
    const body = withRoom(bodyWithIds('input_ids', tokenIds, paired), bootstrapInfo?.bootstrap_room);
    const reader = new TokenReader({
      request,
      sink,
      idsMarker: '"output_ids":[',
      totalMarker: '"completion_tokens":',
      read: readSglangAnswer,
    });
    return { message: { path: GENERATE, body, headers }, reader };
  }

  planChat(request: EngineRequest): ChatExtras {
    const routing = mapFields(placeFields(this.#abilities), request, 'SGLang');
    const fields = { rid: request.id, ...routing, ...chatFields(request, sglangConstraint) };
    return { fields, headers: tracingHeaders(request) };
  }

  /** Aborts by id, which stops at once: SGLang checks for closed connections only every few seconds. */
  abort({ id }: EngineRequest): UpstreamMessage {
    return { path: '/abort_request', body: JSON.stringify({ rid: id }) };
  }

  /** Puts the engine to sleep. Levels above 1 mean the same: weights and cache leave the device. */
  sleep(): UpstreamMessage {
    return { path: '/release_memory_occupation', body: '{}' };
  }

  wake(tags: readonly string[]): UpstreamMessage {
    return { path: '/resume_memory_occupation', body: JSON.stringify(tags.length === 0 ? {} : { tags }) };
  }
}

/** Peer for probes: a prefill or decode server refuses requests without a peer; with this host it moves no blocks. */
const NO_PEER = { bootstrap_host: '2.2.2.2', bootstrap_room: 0 };

/** Returns the object at the newer of two paths, otherwise the older: newer servers warn about the older one. */
async function eitherRecord(server: EngineServer, newer: string, older: string): Promise<UnknownRecord> {
  return (await getRecord(server, newer)) ?? (await getRecord(server, older)) ?? {};
}

/**
 * Returns the tokens of a block in KV events. The ranks of context parallelism share each block. Some releases report
 * the page of one rank as the block of events, too.
 */
function blockSizeIn({ kv_events: events, dcp_size: ranks }: UnknownRecord, pageSize: number): number {
  const described = asCount(asRecord(events)?.block_size) ?? pageSize;
  return described === pageSize ? pageSize * (asCount(ranks) ?? 1) : described;
}

/** Returns how many requests each data-parallel rank runs at once: ranks that share attention share the number. */
function seqsOfRank(serverInfo: UnknownRecord): number | undefined {
  const { max_running_requests: all, enable_dp_attention: isShared, dp_size: ranks } = serverInfo;
  const requests = asCount(all);
  if (requests === undefined || isShared !== true) return requests;
  return Math.max(1, Math.floor(requests / (asCount(ranks) ?? 1)));
}

function abilitiesOf(serverInfo: UnknownRecord, openapi: UnknownRecord | undefined): SglangAbilities {
  const schemas = asRecord(asRecord(openapi?.components)?.schemas);
  const properties = asRecord(asRecord(schemas?.GenerateReqInput)?.properties) ?? {};
  const lowerFirst = serverInfo.schedule_low_priority_values_first === true;
  return {
    priority: serverInfo.enable_priority_scheduling !== true ? undefined : lowerFirst ? 'lower-first' : 'higher-first',
    saltField: 'cache_salt' in properties ? 'cache_salt' : 'extra_key',
  };
}

/** Returns the preferred sampling parameters. The server reports the text that it was started with. */
function preferredIn({ preferred_sampling_params: preferred }: UnknownRecord): unknown {
  return typeof preferred === 'string' ? jsonOrText(preferred) : preferred;
}

/** Returns the publisher as newer servers describe it, otherwise as it was configured. */
function sourceOf(serverInfo: UnknownRecord): EventSource | undefined {
  const described = asRecord(serverInfo.kv_events);
  const port = asCount(described?.endpoint_port_base);
  if (described !== undefined && port !== undefined) {
    const host = asText(described.endpoint_host) ?? '*';
    const replay = asCount(described.replay_endpoint_port_base);
    return {
      endpoint: `tcp://${host}:${port}`,
      replayEndpoint: replay === undefined ? undefined : `tcp://${host}:${replay}`,
      topic: asText(described.topic) ?? '',
    };
  }
  const config = asText(serverInfo.kv_events_config);
  return config === undefined ? undefined : configuredSource(config);
}

function configuredSource(text: string): EventSource | undefined {
  let config: UnknownRecord;
  try {
    config = asRecord(JSON.parse(text)) ?? {};
  } catch {
    return undefined; // the server would not have started with it
  }
  return publisherOf(config, 'sglang');
}

/** Adds the room. It is a u64, which a JSON number cannot hold, so its digits are written directly. */
function withRoom(body: string, room: string | undefined): string {
  if (room === undefined) return body;
  if (!/^\d{1,20}$/.test(room)) throw workerError('InvalidArgument', 'bootstrap_room is not a number');
  return `${body.slice(0, -1)},"bootstrap_room":${room}}`;
}
