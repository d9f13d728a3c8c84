import type { ModelCard, ModelType, RuntimeConfig, TensorModelConfig, WorkerType } from '../discovery/index.ts';
import type { EngineInfo, ModelFacts } from '../engines/index.ts';

/** Names under which the model is offered. */
export interface ServedNames {
  /** Name that clients use. @default the engine's own name of the model */
  readonly displayName?: string | undefined;
  readonly aliases?: readonly string[] | undefined;
}

/** Settings of the card that neither the model nor the engine knows. */
export type CardSettings = Pick<
  RuntimeConfig,
  | 'tool_call_parser'
  | 'reasoning_parser'
  | 'default_thinking_mode'
  | 'exclude_tools_when_tool_choice_none'
  | 'enable_local_indexer'
  | 'taints'
  | 'topology_domains'
  | 'kv_transfer_domain'
  | 'kv_transfer_enforcement'
  | 'kv_transfer_preferred_weight'
  | 'route_to_encoder'
  | 'stable_routing_id'
  | 'runtime_data'
> & {
  readonly userData?: unknown;
  /** Inputs and outputs of a tensor model. @default none */
  readonly tensorModelConfig?: TensorModelConfig | undefined;
  /** Surfaces for text to offer, among those that the model supports (`--endpoint-types`). @default all */
  readonly endpointTypes?: readonly ('chat' | 'completions' | 'none')[] | undefined;
  /** Role of the worker in its deployment. @default 'aggregated' */
  readonly workerType?: WorkerType | undefined;
};

/** Sets of peers, by role. A worker serves only if all peers of one set are there. */
const NEEDS: Readonly<Record<WorkerType, ModelCard['needs']>> = {
  aggregated: [],
  prefill: [['decode']],
  decode: [['prefill']],
  encode: [['prefill', 'decode'], ['aggregated']],
};

/**
 * Returns the card of a worker. A prefill worker offers no surface to clients, and its card does not say how to read
 * answers.
 *
 * @throws Error with a text for the operator if nothing names the model
 */
export function buildModelCard(
  facts: ModelFacts,
  engine: EngineInfo,
  names: ServedNames,
  settings: CardSettings = {},
): ModelCard {
  const displayName = names.displayName ?? engine.modelName;
  if (displayName === undefined || displayName === '') throw new Error('the model has no name: give --model-name');
  const { userData, tensorModelConfig, endpointTypes, workerType: role = 'aggregated', ...all } = settings;
  const { tool_call_parser: _, reasoning_parser: __, ...unread } = all;
  const runtime = role === 'prefill' ? unread : all;
  const isAlone = engine.takesMediaChats === true && !hasTokenizer(facts); // only the engine can render and tokenize
  const types = isAlone ? engine.modelType.filter((type) => type === 'Chat') : engine.modelType;
  return {
    display_name: displayName,
    slug: slugOf(displayName),
    ...defined({
      source_path: facts.sourcePath ?? engine.modelName,
      architectural_max_context_length: facts.contextLength,
      user_data: userData,
      tensor_model_config: tensorModelConfig,
    }),
    files: facts.files ?? {},
    kv_cache_block_size: engine.kvBlockSizeTokens,
    model_type: role === 'prefill' ? ['Prefill'] : offered(types, endpointTypes),
    model_input: isAlone ? 'Text' : engine.modelInput,
    worker_type: role,
    needs: NEEDS[role],
    aliases: names.aliases ?? [],
    runtime_config: { ...runtimeOf(facts, engine), ...runtime },
  };
}

/** Returns the offered types. Only models of text have a choice of surfaces. */
function offered(types: readonly ModelType[], chosen: CardSettings['endpointTypes']): readonly ModelType[] {
  if (chosen === undefined) return types;
  return types.filter((type) => {
    if (type === 'Chat') return chosen.includes('chat');
    return type !== 'Completions' || chosen.includes('completions');
  });
}

function hasTokenizer({ files }: ModelFacts): boolean {
  return Object.keys(files ?? {}).some((name) => name === 'tokenizer.json' || name.includes('tiktoken'));
}

/** Returns a name in a form that is safe for keys. */
export function slugOf(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9_-]+/g, '-');
}

function runtimeOf(facts: ModelFacts, engine: EngineInfo): RuntimeConfig {
  const lengths = [engine.contextLength, facts.contextLength].filter((length) => length !== undefined);
  return {
    ...defined({
      context_length: lengths.length === 0 ? undefined : Math.min(...lengths),
      total_kv_blocks: engine.totalKvBlocks > 0 ? engine.totalKvBlocks : undefined,
      max_num_seqs: engine.maxNumSeqs,
      max_num_batched_tokens: engine.maxNumBatchedTokens,
      sampling_defaults: hasAny(facts.samplingDefaults) ? facts.samplingDefaults : undefined,
    }),
    ...rendezvousOf(engine),
    data_parallel_start_rank: 0,
    data_parallel_size: engine.dataParallelSize,
    ...(engine.takesMediaChats === true && hasTokenizer(facts) ? { media_chats: true } : {}),
    ...(engine.chatEngine === undefined ? {} : { engine_chats: engine.chatEngine }),
    enable_local_indexer: engine.publishesKvEvents,
    kv_event_publishing_enabled: engine.publishesKvEvents,
  };
}

function hasAny(record: object | undefined): boolean {
  return record !== undefined && Object.keys(record).length > 0;
}

/** Returns the address at which decode engines connect to this one, if it has one. */
function rendezvousOf({ bootstrapHost: host, bootstrapPort: port }: EngineInfo): RuntimeConfig {
  if (port === undefined) return {};
  return { disaggregated_endpoint: { ...(host === undefined ? {} : { bootstrap_host: host }), bootstrap_port: port } };
}

/** Removes fields that are undefined, as the wire does. */
function defined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
