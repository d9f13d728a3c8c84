import type { EventScope, EventTransport, Transport } from '../planes/index.ts';
import type { DefaultSampling, ModelFile } from '../tokens/index.ts';

/** Role of a worker in a deployment. */
export type WorkerType = 'aggregated' | 'prefill' | 'decode' | 'encode';
/** Routes that a model serves; on the wire one string joined by ` | `. */
export type ModelType =
  | 'Chat'
  | 'Completions'
  | 'Embedding'
  | 'TensorBased'
  | 'Prefill'
  | 'Images'
  | 'Videos'
  | 'Audios';
export type ModelInput = 'Tokens' | 'Text' | 'Tensor';

/** A file of a card. */
export type CheckedFile = ModelFile;

/** Sampling of a model for requests that do not specify it, and a limit for all requests. */
export interface SamplingDefaults extends DefaultSampling {
  /** Largest number of tokens of a choice, whatever a request asks for. */
  readonly max_tokens_limit?: number;
}

/** Abilities of the engine behind a card. Names as on the wire. */
export interface RuntimeConfig {
  readonly context_length?: number;
  /** Value for each data-parallel rank. */
  readonly total_kv_blocks?: number;
  readonly max_num_seqs?: number;
  readonly max_num_batched_tokens?: number;
  readonly tool_call_parser?: string;
  readonly reasoning_parser?: string;
  /** Thinking mode of the template if a request names none. */
  readonly default_thinking_mode?: 'enabled' | 'disabled';
  /** Chat template; absent = the engine has its own, or none. */
  readonly sampling_defaults?: SamplingDefaults;
  readonly tokenizer_backend?: string;
  readonly exclude_tools_when_tool_choice_none?: boolean;
  readonly data_parallel_start_rank?: number;
  readonly data_parallel_size?: number;
  readonly enable_local_indexer?: boolean;
  readonly kv_event_publishing_enabled?: boolean;
  /** Whether the hash of a block in KV events also covers the first token after it: Dynamo's SGLang with EAGLE. */
  readonly enable_eagle?: boolean;
  readonly runtime_data?: Readonly<Record<string, unknown>>;
  readonly taints?: readonly string[];
  /** Place of the worker, from domain to value; each pair is also a taint. */
  readonly topology_domains?: Readonly<Record<string, string>>;
  /** Domain within which a prefill worker hands its blocks over. */
  readonly kv_transfer_domain?: string;
  readonly kv_transfer_enforcement?: 'required' | 'preferred';
  /** From 0 to 1; only with `preferred`. */
  readonly kv_transfer_preferred_weight?: number;
  /** Whether media go to an encode worker first. */
  readonly route_to_encoder?: boolean;
  /** Whether chats that name media go to the worker as bodies, beside prompts in tokens. */
  readonly media_chats?: boolean;
  /**
   * Engine whose own chat endpoint answers chats that come as bodies (`vllm`, `sglang`). Absent = it is unknown, or the
   * worker has none.
   */
  readonly engine_chats?: string;
  readonly stable_routing_id?: string;
  readonly disaggregated_endpoint?: { readonly bootstrap_host?: string; readonly bootstrap_port?: number };
}

/** One input or output of a tensor model. */
export interface TensorDescription {
  readonly name: string;
  /** Data type: `Int32`, `Float16`, `Bytes`. */
  readonly data_type: string;
  /** Dimensions; -1 = any length. */
  readonly shape: readonly number[];
  readonly parameters?: Readonly<Record<string, unknown>>;
}

/** Description that a tensor model gives of itself. */
export interface TensorModelConfig {
  readonly name: string;
  readonly inputs: readonly TensorDescription[];
  readonly outputs: readonly TensorDescription[];
  /** Bytes of Triton's `inference.ModelConfig`, which then replaces all other fields. */
  readonly triton_model_config?: readonly number[];
}

/** Model deployment card: everything a frontend needs to serve a model. Names as on the wire. */
export interface ModelCard {
  readonly display_name: string;
  readonly slug: string;
  readonly source_path?: string;
  /**
   * Files by role: `config.json`, `tokenizer.json`, `tokenizer_config.json`, `generation_config.json`,
   * `chat_template.jinja`, ...
   */
  readonly files: Readonly<Record<string, CheckedFile>>;
  readonly architectural_max_context_length?: number;
  readonly kv_cache_block_size: number;
  readonly model_type: readonly ModelType[];
  readonly model_input: ModelInput;
  readonly worker_type: WorkerType;
  /** Peer worker types that the worker needs, as an OR of AND-sets; empty = no peers. */
  readonly needs: readonly (readonly WorkerType[])[];
  readonly aliases: readonly string[];
  readonly runtime_config: RuntimeConfig;
  /** Inputs and outputs of a tensor model, for KServe's clients. */
  readonly tensor_model_config?: TensorModelConfig;
  readonly lora?: { readonly name: string; readonly max_gpu_lora_count?: number };
  readonly user_data?: unknown;
}

interface Addressed {
  readonly namespace: string;
  readonly component: string;
  readonly endpoint: string;
  /** Instance id in lower-case hex. */
  readonly instance_id: string;
  /** Product whose request plane the worker speaks, if it is not Stator's. Only queries that ask for such get them. */
  readonly wire?: 'dynamo';
}

/** Machine of a worker, as the agent of its instance states it. Names as on the wire. */
export interface HostFacts {
  readonly instance_id: string;
  readonly instance_type?: string;
  /** Availability zone. */
  readonly zone?: string;
  /** Market in which the instance was bought: `on-demand`, `spot`, `reservation` or `capacity-block`. */
  readonly market?: string;
  /** Auto Scaling group. */
  readonly group?: string;
  /** Generation of the fleet, which a release raises. */
  readonly generation?: string;
}

export interface EndpointRecord extends Addressed {
  readonly type: 'Endpoint';
  readonly transport: Transport;
  readonly device_type?: string;
  /**
   * Whether the KV events that the worker's engine should send do not come. Absent = they come, or were not asked for.
   */
  readonly kv_events?: 'missing';
  /** Reason why this worker of Dynamo must not be called, for operators. @default it may be called */
  readonly refused?: string;
  /** Machine of the worker. Absent if no agent stated it, and in records of older workers. */
  readonly host?: HostFacts;
}

export interface ModelRecord extends Addressed {
  readonly type: 'Model';
  /** Unix time in seconds at which the worker began to offer the model; absent in records of older workers. */
  readonly registered_at?: number;
  readonly card: ModelCard;
  /**
   * Address from which the files of the card can be fetched: `host:port/path` of their folder on the worker's status
   * server. Absent = none.
   */
  readonly files_at?: string;
  /** Adapter slug, for a LoRA card. */
  readonly model_suffix?: string;
}

/** A publisher of events; `instance_id` is the publisher's id. */
export interface EventChannelRecord {
  readonly type: 'EventChannel';
  readonly scope: EventScope;
  readonly topic: string;
  readonly instance_id: string;
  readonly transport: EventTransport;
  /** Worker that publishes, so that its events can be attributed before the first one arrives. */
  readonly worker_id?: string;
  /** Product whose messages the publisher sends, if they are not Stator's; as in `Addressed`. */
  readonly wire?: 'dynamo';
}

/** Endpoint by its names. */
export interface EndpointPath {
  readonly namespace: string;
  readonly component: string;
  readonly endpoint: string;
}

/**
 * Facts that a publisher of Dynamo states beside its channel; `instance_id` is the publisher's id. Only sources of the
 * topic `kv-events` have the optional fields.
 */
export interface EventSourceRecord {
  readonly type: 'EventSource';
  readonly scope: EventScope;
  readonly topic: string;
  readonly instance_id: string;
  readonly wire: 'dynamo';
  /** Worker and rank whose cache the events describe. */
  readonly worker_id?: string;
  readonly dp_rank?: number;
  /** Endpoint whose scope the events have. */
  readonly kv_state_endpoint?: EndpointPath;
  /** Endpoint that answers queries for past events and for the whole index. Absent = there are only live events. */
  readonly recovery_target?: EndpointRecord;
}

export type DiscoveryRecord = EndpointRecord | ModelRecord | EventChannelRecord | EventSourceRecord;
