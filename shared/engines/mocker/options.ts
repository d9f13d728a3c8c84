import type { Clock } from '../../clock/index.ts';
import type { Settings } from '../../config/index.ts';
import type { ModelType } from '../../discovery/index.ts';
import type { HandoffNetwork } from './handoffs.ts';
import type { SchedulerOptions } from './scheduler.ts';
import { type IdRange, type Introduction, passageTokens, type Thinking } from './token-cursor.ts';

/** Runs a callback on a later turn of the event loop. */
export type Defer = (callback: () => void) => void;

/** Place where a mock engine publishes its KV events in vLLM's format. */
export interface KvStreamOptions {
  readonly host: string;
  /** Port; 0 = any. */
  readonly port: number;
  /** Replay port; 0 = any. @default no replays */
  readonly replayPort?: number | undefined;
}

/**
 * Settings of a mock engine, all optional. By default a rank has 16384 blocks of 64 tokens, and 256 sequences and 8192
 * tokens in a pass. It caches prefixes, chunks prefills, preempts the sequence admitted last, and runs at the modelled
 * GPU's speed.
 */
export interface MockEngineOptions extends Partial<SchedulerOptions> {
  /** Longest sequence in tokens. @default and upper bound: the capacity of one rank's KV cache */
  readonly maxModelLen?: number | undefined;
  /** Number of ranks, each with its own cache and scheduler. @default 1 */
  readonly dataParallelSize?: number;
  /** Simulated time for loading the model. @default 0 */
  readonly startupTimeMs?: number;
  /** Seed of requests without one. Workers of one model need the same. @default 0 */
  readonly seed?: number;
  /** Number of requests that may wait for a rank before new ones are refused with `WorkerOverloaded`. @default 16384 */
  readonly waitingRequestsMax?: number;
  /** Encoded passages for answers. @default random ids, up to `max_tokens` */
  readonly readableTokenIds?: {
    readonly passages: readonly ArrayLike<number>[];
    /** Tokens between two passages of one answer. */
    readonly separator: ArrayLike<number>;
    /** Question with an answer of its own. @default none */
    readonly introduction?: Introduction;
  };
  /** Ids of random output. @default 0 to 31999 */
  readonly randomIds?: IdRange;
  /** Reasoning before answers. @default none */
  readonly thinking?: Thinking | undefined;
  /** @default Chat and Completions */
  readonly modelType?: readonly ModelType[];
  /**
   * Whether the engine computes prompts for decode engines and keeps their blocks until they are fetched. @default
   * false
   */
  readonly isPrefill?: boolean;
  /** Whether cache changes are reported. @default as `enablePrefixCaching` */
  readonly publishesKvEvents?: boolean;
  /** Where cache changes are published in vLLM's format; each rank adds its number to the ports. @default nowhere */
  readonly kvStream?: KvStreamOptions | undefined;
  /** Port where decode engines wait for a prefill engine that still computes. @default none: they come afterwards */
  readonly bootstrapPort?: number | undefined;
  /** KV bytes of one token, for the time of moving blocks. @default 0: no time */
  readonly kvBytesPerToken?: number;
  /** GB/s; 0 = no delay. @default 64 */
  readonly kvTransferBandwidthGbps?: number;
  /** @default `full_prompt` */
  readonly kvTransferTiming?: 'full_prompt' | 'destination_missing';
  /** Longest time that unfetched blocks are kept, and longest wait for blocks. @default 300,000 */
  readonly handoffTimeoutMs?: number;
}

export interface MockEngineDeps {
  readonly clock: Clock;
  /** Defers a due pass in favour of other work. @default `setImmediate` */
  readonly defer?: Defer;
  /**
   * Network by which prefill and decode engines find each other's blocks. @default none: every prompt is computed here
   */
  readonly handoffs?: HandoffNetwork;
}

/** Options with every default filled in. */
export type MockSettings = ReturnType<typeof resolveMockOptions>;

const RANDOM_IDS: IdRange = { first: 0, count: 32_000 };

/** Fills in defaults. @throws RangeError that names the option and its value */
export function resolveMockOptions(options: MockEngineOptions) {
  const scheduler: SchedulerOptions = {
    numGpuBlocks: whole('numGpuBlocks', options.numGpuBlocks ?? 16_384),
    blockSizeTokens: whole('blockSizeTokens', options.blockSizeTokens ?? 64),
    maxNumSeqs: whole('maxNumSeqs', options.maxNumSeqs ?? 256),
    maxNumBatchedTokens: whole('maxNumBatchedTokens', options.maxNumBatchedTokens ?? 8192),
    enablePrefixCaching: options.enablePrefixCaching ?? true,
    enableChunkedPrefill: options.enableChunkedPrefill ?? true,
    preemptionMode: options.preemptionMode ?? 'lifo',
    watermark: share('watermark', options.watermark ?? 0),
    engineType: options.engineType ?? 'vllm',
    timing: options.timing,
    speedupRatio: ratio('speedupRatio', options.speedupRatio ?? 1),
    decodeSpeedupRatio: ratio('decodeSpeedupRatio', options.decodeSpeedupRatio ?? 1),
  };
  const { randomIds = RANDOM_IDS, readableTokenIds: ids } = options;
  whole('randomIds.count', randomIds.count);
  return {
    scheduler,
    contextLength: contextLength(scheduler, options.maxModelLen),
    dataParallelSize: whole('dataParallelSize', options.dataParallelSize ?? 1),
    startupTimeMs: ratio('startupTimeMs', options.startupTimeMs ?? 0),
    seed: options.seed ?? 0,
    waitingRequestsMax: whole('waitingRequestsMax', options.waitingRequestsMax ?? 16_384),
    text: ids && passageTokens(ids.passages, ids.separator, ids.introduction),
    randomIds,
    thinking: options.thinking && checkThinking(options.thinking),
    kvStream: scheduler.enablePrefixCaching ? options.kvStream : undefined,
    modelType: options.modelType ?? ['Chat', 'Completions'],
    publishesKvEvents: scheduler.enablePrefixCaching && (options.publishesKvEvents ?? true),
    transfer: {
      isPrefill: options.isPrefill ?? false,
      bootstrapPort: options.bootstrapPort,
      bytesPerToken: ratio('kvBytesPerToken', options.kvBytesPerToken ?? 0),
      bandwidthGbps: ratio('kvTransferBandwidthGbps', options.kvTransferBandwidthGbps ?? 64),
      movesMissingOnly: options.kvTransferTiming === 'destination_missing',
      timeoutMs: ratio('handoffTimeoutMs', options.handoffTimeoutMs ?? 300_000),
    },
  };
}

/**
 * Returns the longest sequence. A sequence must be able to run by itself, or it would wait or be preempted for ever.
 */
function contextLength(scheduler: SchedulerOptions, maxModelLen: number | undefined): number {
  const cacheTokens = scheduler.numGpuBlocks * scheduler.blockSizeTokens;
  const passTokens = scheduler.enableChunkedPrefill ? cacheTokens : scheduler.maxNumBatchedTokens;
  return Math.min(cacheTokens, passTokens, maxModelLen === undefined ? cacheTokens : whole('maxModelLen', maxModelLen));
}

function whole(name: string, value: number): number {
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new RangeError(`mock engine option ${name} must be a positive whole number, got ${value}`);
}

function ratio(name: string, value: number): number {
  if (Number.isFinite(value) && value >= 0) return value;
  throw new RangeError(`mock engine option ${name} must be a number of at least 0, got ${value}`);
}

function share(name: string, value: number): number {
  if (value >= 0 && value <= 1) return value;
  throw new RangeError(`mock engine option ${name} must be a number from 0 to 1, got ${value}`);
}

function checkThinking(thinking: Thinking): Thinking {
  share('thinking.ratio', thinking.ratio);
  for (const id of [thinking.startId, thinking.endId]) {
    if (!Number.isSafeInteger(id) || id < 0) throw new RangeError(`mock engine option thinking takes ids, got ${id}`);
  }
  if (thinking.startId === thinking.endId) throw new RangeError('mock engine option thinking needs two different ids');
  return thinking;
}

/** Returns the engine model of mock and simulated workers, without the size of its cache. */
export function engineModel(settings: Settings<'worker' | 'simulate'>): Omit<SchedulerOptions, 'numGpuBlocks'> {
  return {
    blockSizeTokens: settings.blockSize,
    maxNumSeqs: settings.maxNumSeqs,
    maxNumBatchedTokens: settings.maxNumBatchedTokens,
    enablePrefixCaching: settings.enablePrefixCaching,
    enableChunkedPrefill: settings.enableChunkedPrefill,
    preemptionMode: settings.preemptionMode,
    watermark: settings.watermark,
    engineType: settings.engineType,
    speedupRatio: settings.speedupRatio,
    decodeSpeedupRatio: settings.decodeSpeedupRatio,
  };
}
