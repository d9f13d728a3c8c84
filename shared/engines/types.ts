import type { Clock } from '../clock/index.ts';
import type { ResolvedConfig, Settings } from '../config/index.ts';
import type { CheckedFile, ModelInput, ModelType, SamplingDefaults } from '../discovery/index.ts';
import type { EngineRequest, OutputSink } from '../protocol/index.ts';
import type { UnknownRecord } from '../records/index.ts';
import type { Logger } from '../telemetry/index.ts';

/** What an engine says of itself once it is ready. */
export interface EngineInfo {
  readonly contextLength: number | undefined;
  readonly kvBlockSizeTokens: number;
  /** Per data-parallel rank; 0 = unknown. */
  readonly totalKvBlocks: number;
  readonly maxNumSeqs: number | undefined;
  readonly maxNumBatchedTokens: number | undefined;
  readonly dataParallelSize: number;
  readonly modelInput: ModelInput;
  readonly modelType: readonly ModelType[];
  /** Whether `onKvEvents` will report. */
  readonly publishesKvEvents: boolean;
  /** A block that it stores again is the same one, which one removal ends. @default each is a copy that is removed on its own */
  readonly holdsBlocksOnce?: boolean;
  /** Whether prompts may come as embeddings; undefined = the engine says so itself when it is asked. */
  readonly takesPromptEmbeds?: boolean;
  /** Whether chats that name media come as bodies: the engine renders those itself. @default false */
  readonly takesMediaChats?: boolean;
  /** What it runs on, as its record in discovery names it (`cpu`, `cuda`). @default unknown */
  readonly deviceType?: string;
  /** What the engine itself calls its model, when it says so; the name to serve under unless another is configured. */
  readonly modelName?: string;
  /** Folder or repository that the engine has loaded its model from, when it says so. */
  readonly modelPath?: string;
  /** Where it takes the sampling from of requests that say nothing, when its server says so. @default the model's own file */
  readonly samplingSource?: SamplingSource;
  /** It fills in what its file says by itself, but for the number of tokens. @default false */
  readonly fillsInSampling?: boolean;
  /** Port of the engine's own rendezvous server, where prefill and decode find each other (SGLang). */
  readonly bootstrapPort?: number;
  /** Host of that server as others reach it; absent = the worker's own. */
  readonly bootstrapHost?: string;
}

/** What an engine was told of the sampling of requests that say nothing. */
export interface SamplingSource {
  /** Whose generation_config.json counts: the model's, nobody's, or that of a folder or repository. */
  readonly config: 'model' | 'none' | { readonly name: string };
  /** Counts more than the file; in the words of the file. */
  readonly override: UnknownRecord;
  /** What the engine fills in by itself, whoever asks; in the words of its own requests. */
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

/** One scheduler iteration of a rank: what it ran, how long it took and what it left waiting. Counts of requests and tokens. */
export interface EnginePass {
  readonly dpRank: number;
  /** From the schedule to the processed output, in seconds. */
  readonly wallTimeS: number;
  /** New prompts and further chunks. */
  readonly prefillRequests: number;
  /** Computed anew in this pass. */
  readonly prefillTokens: number;
  /** Cached or of earlier chunks, and read. */
  readonly prefillKvTokens: number;
  readonly decodeRequests: number;
  /** Context of all decoding requests. */
  readonly decodeKvTokens: number;
  /** Queued ones are those that it found and had no room for: what came while it ran is for the next one to tell. */
  readonly queuedPrefillRequests: number;
  readonly queuedPrefillTokens: number;
  /** Preempted ones. */
  readonly queuedDecodeRequests: number;
  readonly queuedDecodeKvTokens: number;
}

/** Time between two tokens of a request, as the engine counts it since it began. */
export interface EngineLatency {
  readonly sumSeconds: number;
  readonly count: number;
}

/** Where a block lies: on the device, in the host's memory, on a disk, or in a store that engines share. */
export type KvTier = 'device' | 'host_pinned' | 'disk' | 'external';

/**
 * Hashes as pairs of u32 halves, low half first: `[low0, high0, low1, high1, ...]`.
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

/** Where an engine writes; it may look at `isBlocked` to slow down instead of having its output kept. */
export interface EngineSink extends OutputSink {
  isBlocked(): boolean;
  onUnblocked(callback: () => void): void;
}

/** Drives one inference engine. */
export interface Engine {
  /** As `--engine` has it; `handler` for one made of code. */
  readonly kind: string;
  /** Resolves when the engine can serve. Rejects with a message that says what to change. */
  start(signal: AbortSignal): Promise<EngineInfo>;
  /**
   * Serves one request: writes to `sink` and closes it with exactly one `end` or `fail`. When `signal` aborts, the work
   * stops within one engine step, what it held is freed, and the sink is left alone.
   */
  generate(request: EngineRequest, sink: EngineSink, signal: AbortSignal): void;
  /** Rejects when the engine cannot serve now, with `EngineShutdown` when it never will again. */
  health(signal: AbortSignal): Promise<void>;
  /** One entry per rank. */
  load(): readonly EngineLoad[];
  /** Reports KV cache changes, all of one engine step in one call, until `stop`. */
  onKvEvents(listener: (events: readonly KvEvent[]) => void): void;
  /**
   * Runs `listener` with the reason why KV events that the engine was asked for do not come, and with undefined once they do.
   * Absent = none can be missing.
   */
  onKvEventFault?(listener: (fault: string | undefined) => void): void;
  /** Reports each pass when it is over, until `stop`. Absent = the engine does not say how long its passes take. */
  onPasses?(listener: (pass: EnginePass) => void): void;
  /** Its own count of the time between tokens; undefined before it was read. Absent = it has none. */
  tokenLatency?(): EngineLatency | undefined;
  /** Forgets every cached block that can be forgotten and reports `cleared`. Absent = the engine cannot. */
  clearKvBlocks?(signal: AbortSignal): Promise<void>;
  /** Frees memory of a drained engine, which then refuses requests until `wake`. Absent = the engine cannot. */
  sleep?(level: number, signal: AbortSignal): Promise<void>;
  /** `tags` name parts to wake (`weights`, `kv_cache`); none = all. */
  wake?(tags: readonly string[], signal: AbortSignal): Promise<void>;
  /** Makes the adapter in a local folder servable under `name`; one that is loaded already stays. Absent = cannot. */
  loadLora?(name: string, path: string, signal: AbortSignal): Promise<void>;
  unloadLora?(name: string, signal: AbortSignal): Promise<void>;
  /**
   * Frees what the prefill of `request` holds for a decode worker that will not fetch it: known by the parameters that the
   * prefill gave, or by its room. Nothing when there is nothing. Absent = its own time-out frees it.
   */
  releasePrefill?(request: EngineRequest): void;
  /** Its process was started with the worker and ends with it: one that hangs is ended, as nobody else will. @default false */
  readonly isOwn?: boolean;
  /** Runs `listener` once when the engine's process has ended by itself and will not come back. */
  onExit?(listener: (reason: Error) => void): void;
  /** The engine's own metrics in Prometheus' text format, as last read; undefined = none. */
  metricsText?(): string | undefined;
  stop(): Promise<void>;
}

/** What is known of the model apart from its engine. All of it is optional for engines that take text. */
export interface ModelFacts {
  /** Files by role (`config.json`, `tokenizer.json`, ...). */
  readonly files?: Readonly<Record<string, CheckedFile>>;
  /** Context length of the architecture, in tokens. */
  readonly contextLength?: number | undefined;
  /** Token that texts of the model begin with. */
  readonly bosTokenId?: number | undefined;
  /** How it samples where a request says nothing; absent = the engine has its own, or none. */
  readonly samplingDefaults?: SamplingDefaults | undefined;
  /** Folder or repository of the model. */
  readonly sourcePath?: string | undefined;
}

/** An engine with what is known of its model, or how to find out once the engine has loaded it. */
export interface OpenedEngine {
  readonly engine: Engine;
  readonly model: ModelFacts | ((engine: EngineInfo) => Promise<ModelFacts>);
}

/** What an engine needs of its worker beside the settings. */
export interface EngineContext {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Its place among the engines of the process. */
  readonly at: number;
  onDroppedKvEvents(count: number): void;
}

/** What a worker is told to do with its engine (`--disaggregation-mode`). */
export type EngineRole = Settings<'worker'>['disaggregationMode'];

/** How a worker comes to its engine: one value of `--engine`. */
export interface EngineKind {
  /** Roles beside `agg`. @default none */
  readonly roles?: readonly EngineRole[];
  /** A process may have several, as many as `--num-workers` says. @default false */
  readonly isSeveral?: boolean;
  /** What the model's card says of the engine. @default nothing */
  readonly runtimeData?: Readonly<Record<string, unknown>>;
  /** The name that clients use; undefined where the engine's own name is best. */
  displayName(settings: Settings<'worker'>): string | undefined;
  /**
   * Opens one engine; it is started later. Of the settings that nobody gave, some are the engine's to choose.
   *
   * @throws ConfigError for settings that it cannot have
   */
  open(config: ResolvedConfig<'worker'>, context: EngineContext): Promise<OpenedEngine>;
  /** Starts the part of an engine that runs on one more machine (`--headless`). Absent = the engine has no such nodes. */
  startSecondary?(
    config: ResolvedConfig<'worker'>,
    context: Pick<EngineContext, 'clock' | 'logger'>,
  ): Promise<SecondaryNode>;
}

/** The part of an engine that runs on one more machine: it computes, and answers nobody but the engine's first node. */
export interface SecondaryNode {
  /** Resolves when the process has ended by itself, with the reason. */
  readonly exit: Promise<Error>;
  /** Ends the process. Idempotent. */
  stop(): Promise<void>;
}
