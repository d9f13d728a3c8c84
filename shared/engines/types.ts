import type { Clock } from '../clock/index.ts';
import type { ResolvedConfig, Settings } from '../config/index.ts';
import type { CheckedFile, ModelInput, ModelType, SamplingDefaults } from '../discovery/index.ts';
import type { EngineRequest, OutputSink } from '../protocol/index.ts';
import type { UnknownRecord } from '../records/index.ts';
import type { Logger } from '../telemetry/index.ts';

/** Information that an engine gives once it is ready. */
export interface EngineInfo {
  readonly contextLength: number | undefined;
  readonly kvBlockSizeTokens: number;
  /** Number of blocks of one data-parallel rank; 0 = unknown. */
  readonly totalKvBlocks: number;
  readonly maxNumSeqs: number | undefined;
  readonly maxNumBatchedTokens: number | undefined;
  readonly dataParallelSize: number;
  readonly modelInput: ModelInput;
  readonly modelType: readonly ModelType[];
  /** Whether `onKvEvents` will report. */
  readonly publishesKvEvents: boolean;
  /**
   * Whether a block that is stored again stays one block, which one removal ends. @default each is a copy that is
   * removed by itself
   */
  readonly holdsBlocksOnce?: boolean;
  /** Whether prompts may come as embeddings; undefined = the engine decides for each request. */
  readonly takesPromptEmbeds?: boolean;
  /** Whether chats with media come as bodies, which the engine renders itself. @default false */
  readonly takesMediaChats?: boolean;
  /**
   * Engine whose own chat endpoint answers chats that come as bodies: it renders them, and parses tool calls and
   * reasoning itself. @default unknown, or there is no such endpoint
   */
  readonly chatEngine?: string;
  /** Device that it runs on, as its record in discovery names it (`cpu`, `cuda`). @default unknown */
  readonly deviceType?: string;
  /** The engine's own name of its model, if it reports one; the served name unless another is configured. */
  readonly modelName?: string;
  /** Folder or repository that the engine has loaded its model from, if it reports one. */
  readonly modelPath?: string;
  /** Source of its sampling defaults, if its server reports one. @default the model's own file */
  readonly samplingSource?: SamplingSource;
  /** Whether it fills in its file's values itself, except the number of tokens. @default false */
  readonly fillsInSampling?: boolean;
  /** Port of the engine's own rendezvous server, where prefill and decode find each other (SGLang). */
  readonly bootstrapPort?: number;
  /** Host of that server as others reach it; absent = the worker's own. */
  readonly bootstrapHost?: string;
}

/** Source of an engine's sampling defaults, as configured. */
export interface SamplingSource {
  /** Owner of the generation_config.json that counts: the model, none, or a folder or repository. */
  readonly config: 'model' | 'none' | { readonly name: string };
  /** Values that take precedence over the file, in the file's words. */
  readonly override: UnknownRecord;
  /** Values that the engine fills in for any request, in the words of its own requests. */
  readonly own: UnknownRecord;
}

/**
 * Load of one data-parallel rank at this instant.
 *
 * @example
 * const load: EngineLoad = {
 *   dpRank: 0,
 *   runningRequests: 3,
 *   waitingRequests: 0,
 *   usedKvBlocks: 120,
 *   totalKvBlocks: 1000,
 *   activePrefillTokens: 0,
 * };
 */
export interface EngineLoad {
  readonly dpRank: number;
  readonly runningRequests: number;
  readonly waitingRequests: number;
  readonly usedKvBlocks: number;
  readonly totalKvBlocks: number;
  readonly activePrefillTokens: number;
}

/**
 * One scheduler iteration of a rank: its work, its duration and the requests left waiting. Counts of requests and
 * tokens.
 */
export interface EnginePass {
  readonly dpRank: number;
  /** Time from the schedule to the processed output, in seconds. */
  readonly wallTimeS: number;
  /** New prompts and further chunks. */
  readonly prefillRequests: number;
  /** Tokens computed in this pass. */
  readonly prefillTokens: number;
  /** Tokens that were read: cached, or from earlier chunks. */
  readonly prefillKvTokens: number;
  readonly decodeRequests: number;
  /** Context of all decoding requests. */
  readonly decodeKvTokens: number;
  /** Queued requests that the pass found and had no room for; later ones are for the next pass. */
  readonly queuedPrefillRequests: number;
  readonly queuedPrefillTokens: number;
  /** Preempted requests. */
  readonly queuedDecodeRequests: number;
  readonly queuedDecodeKvTokens: number;
}

/** Time between two tokens of a request, as the engine has counted it since its start. */
export interface EngineLatency {
  readonly sumSeconds: number;
  readonly count: number;
}

/** Place of a block: the device, the host's memory, a disk, or a store that engines share. */
export type KvTier = 'device' | 'host_pinned' | 'disk' | 'external';

/**
 * Change of the KV cache. Hashes are pairs of u32 halves, low half first: `[low0, high0, low1, high1, ...]`.
 * `blockHashes` name a block by its whole prefix, `tokensHashes` by its own tokens.
 */
export type KvEvent =
  | {
      readonly kind: 'stored';
      readonly dpRank: number;
      /** `[low, high]` of the parent block, absent for the first block of a prompt. */
      readonly parentHash: readonly [number, number] | undefined;
      readonly blockHashes: Uint32Array;
      readonly tokensHashes: Uint32Array;
      /** @default 'device' */
      readonly tier?: KvTier;
    }
  | {
      readonly kind: 'removed';
      readonly dpRank: number;
      readonly blockHashes: Uint32Array;
      /** @default 'device' */
      readonly tier?: KvTier;
    }
  | { readonly kind: 'cleared'; readonly dpRank: number };

/** Receives an engine's output. The engine may check `isBlocked` to slow down, so that its output is not buffered. */
export interface EngineSink extends OutputSink {
  isBlocked(): boolean;
  onUnblocked(callback: () => void): void;
}

/** Drives one inference engine. */
export interface Engine {
  /** Name in `--engine`; `handler` for an engine made of code. */
  readonly kind: string;
  /** Starts the engine. Resolves when it can serve; rejects with a message that says what to change. */
  start(signal: AbortSignal): Promise<EngineInfo>;
  /**
   * Serves one request: writes to `sink` and closes it with exactly one `end` or `fail`. When `signal` aborts, the work
   * stops within one engine step, its blocks are freed, and the sink is no longer used.
   */
  generate(request: EngineRequest, sink: EngineSink, signal: AbortSignal): void;
  /** Rejects when the engine cannot serve now, with `EngineShutdown` when it never will again. */
  health(signal: AbortSignal): Promise<void>;
  /** Returns one entry for each rank. */
  load(): readonly EngineLoad[];
  /** Reports KV cache changes, all of one engine step in one call, until `stop`. */
  onKvEvents(listener: (events: readonly KvEvent[]) => void): void;
  /**
   * Calls `listener` with the reason why KV events that the engine was configured to publish do not arrive, and with
   * undefined once they do. Absent = none can be missing.
   */
  onKvEventFault?(listener: (fault: string | undefined) => void): void;
  /** Reports each pass when it is over, until `stop`. Absent = the engine does not report its passes. */
  onPasses?(listener: (pass: EnginePass) => void): void;
  /** Returns its own count of the time between tokens; undefined before it was read. Absent = it has none. */
  tokenLatency?(): EngineLatency | undefined;
  /** Drops every cached block that can be dropped and reports `cleared`. Absent = the engine cannot. */
  clearKvBlocks?(signal: AbortSignal): Promise<void>;
  /** Frees memory of a drained engine, which then refuses requests until `wake`. Absent = the engine cannot. */
  sleep?(level: number, signal: AbortSignal): Promise<void>;
  /** Wakes the engine. `tags` name parts to wake (`weights`, `kv_cache`); none = all. */
  wake?(tags: readonly string[], signal: AbortSignal): Promise<void>;
  /**
   * Makes the adapter in a local folder available under `name`; an adapter that is already loaded stays. Absent =
   * cannot.
   */
  loadLora?(name: string, path: string, signal: AbortSignal): Promise<void>;
  unloadLora?(name: string, signal: AbortSignal): Promise<void>;
  /**
   * Frees the blocks that the prefill of `request` holds for a decode worker that will not fetch them, identified by
   * the prefill's parameters or its room. Does nothing if there are none. Absent = its own time-out frees them.
   */
  releasePrefill?(request: EngineRequest): void;
  /**
   * Whether its process was started with the worker and ends with it. Then the worker also stops a process that hangs.
   * @default false
   */
  readonly isOwn?: boolean;
  /** Calls `listener` once when the engine's process has ended by itself and will not come back. */
  onExit?(listener: (reason: Error) => void): void;
  /** Returns the engine's own metrics in Prometheus' text format, as last read; undefined = none. */
  metricsText?(): string | undefined;
  stop(): Promise<void>;
}

/** Facts about the model apart from its engine. All are optional for engines that take text. */
export interface ModelFacts {
  /** Files by name (`config.json`, `tokenizer.json`, ...). */
  readonly files?: Readonly<Record<string, CheckedFile>>;
  /** Context length of the architecture, in tokens. */
  readonly contextLength?: number | undefined;
  /** Token that texts of the model begin with. */
  readonly bosTokenId?: number | undefined;
  /** Sampling defaults of the model; absent = the engine has its own, or none. */
  readonly samplingDefaults?: SamplingDefaults | undefined;
  /** Folder or repository of the model. */
  readonly sourcePath?: string | undefined;
}

/** Engine with the facts about its model, or a function that finds them once the engine has loaded it. */
export interface OpenedEngine {
  readonly engine: Engine;
  readonly model: ModelFacts | ((engine: EngineInfo) => Promise<ModelFacts>);
}

/** Dependencies of an engine on its worker, besides the settings. */
export interface EngineContext {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Signal that ends the start of the worker. @default none */
  readonly signal?: AbortSignal;
  /** Position among the engines of the process. */
  readonly at: number;
  onDroppedKvEvents(count: number): void;
}

/** Role of a worker (`--disaggregation-mode`). */
export type EngineRole = Settings<'worker'>['disaggregationMode'];

/** Kind of engine, by which a worker opens it: one value of `--engine`. */
export interface EngineKind {
  /** Roles besides `agg`. @default none */
  readonly roles?: readonly EngineRole[];
  /** Whether a process may have several, as many as `--num-workers`. @default false */
  readonly isSeveral?: boolean;
  /** Data about the engine in the model's card. @default none */
  readonly runtimeData?: Readonly<Record<string, unknown>>;
  /** Returns the name for clients; undefined if the engine's own name is best. */
  displayName(settings: Settings<'worker'>): string | undefined;
  /**
   * Opens one engine; it is started later. The engine may choose some of the settings that the user did not give.
   *
   * @throws ConfigError for settings that it does not support
   */
  open(config: ResolvedConfig<'worker'>, context: EngineContext): Promise<OpenedEngine>;
  /**
   * Starts the part of an engine that runs on a further machine (`--headless`). Absent = the engine has no such nodes.
   */
  startSecondary?(
    config: ResolvedConfig<'worker'>,
    context: Pick<EngineContext, 'clock' | 'logger'>,
  ): Promise<SecondaryNode>;
}

/** Part of an engine that runs on a further machine: it computes, and serves only the engine's first node. */
export interface SecondaryNode {
  /** Resolves when the process has ended by itself, with the reason. */
  readonly exit: Promise<Error>;
  /** Ends the process. Idempotent. */
  stop(): Promise<void>;
}
