import type { Clock } from '../../clock/index.ts';
import type { Settings } from '../../config/index.ts';
import type { ModelType } from '../../discovery/index.ts';
import type { HandoffNetwork } from './handoffs.ts';
import type { SchedulerOptions } from './scheduler.ts';
import { type IdRange, type Introduction, passageTokens, type Thinking } from './token-cursor.ts';

/** Runs a callback on a later turn of the event loop. */
export type Defer = (callback: () => void) => void;

/** Where a mock engine publishes its KV events like vLLM. */
export interface KvStreamOptions {
  readonly host: string;
  /** 0 = any. */
  readonly port: number;
  /** 0 = any. Default: nothing is replayed. */
  readonly replayPort?: number | undefined;
}

/**
 * Settings of a mock engine. Every one is optional; by default a rank has 16384 blocks of 64 tokens, 256 sequences and 8192
 * tokens in a pass, caches prefixes, chunks prefills and preempts the last, at the modelled GPU's speed.
 */
export interface MockEngineOptions extends Partial<SchedulerOptions> {
  /** Longest sequence in tokens. Default and upper bound: what the KV cache of one rank holds. */
  readonly maxModelLen?: number | undefined;
  /** Ranks, each with its own cache and scheduler. Default 1. */
  readonly dataParallelSize?: number;
  /** How long loading the model pretends to take. Default 0. */
  readonly startupTimeMs?: number;
  /** Seed of requests that bring none. Workers of one model need the same. Default 0. */
  readonly seed?: number;
  /** Requests that may wait for a rank before new ones are refused with `WorkerOverloaded`. Default 16384. */
  readonly waitingRequestsMax?: number;
  /** Encoded passages to answer with. Absent: random ids, which run to `max_tokens`. */
  readonly readableTokenIds?: {
    readonly passages: readonly ArrayLike<number>[];
    /** Tokens between two passages of one answer. */
    readonly separator: ArrayLike<number>;
    /** Default: no question has an answer of its own. */
    readonly introduction?: Introduction;
  };
  /** Ids of random output. Default 0 to 31999. */
  readonly randomIds?: IdRange;
  /** Thoughts before answers. Default none. */
  readonly thinking?: Thinking | undefined;
  /** Default Chat and Completions. */
  readonly modelType?: readonly ModelType[];
  /** Computes prompts for decode engines: keeps the blocks of each until one has fetched them. Default false. */
  readonly isPrefill?: boolean;
  /** Whether what the cache holds is told. Default: as `enablePrefixCaching`. */
  readonly publishesKvEvents?: boolean;
  /** Publishes what the cache holds in vLLM's format; each rank adds its number to the ports. Default: nowhere. */
  readonly kvStream?: KvStreamOptions | undefined;
  /** Where decode engines meet a prefill engine while it still computes. Default: they come afterwards. */
  readonly bootstrapPort?: number | undefined;
  /** KV bytes of one token, for the time that moving blocks takes. Default 0: none. */
  readonly kvBytesPerToken?: number;
  /** GB/s; 0 = no delay. Default 64. */
  readonly kvTransferBandwidthGbps?: number;
  /** Default `full_prompt`. */
  readonly kvTransferTiming?: 'full_prompt' | 'destination_missing';
  /** Longest stay of blocks that nobody fetches, and longest wait for some. Default 300,000. */
  readonly handoffTimeoutMs?: number;
}

export interface MockEngineDeps {
  readonly clock: Clock;
  /** How a pass that is due gives way to other work. Default `setImmediate`. */
  readonly defer?: Defer;
  /** How prefill and decode engines find each other's blocks. Default: they do not, and every prompt is computed here. */
  readonly handoffs?: HandoffNetwork;
}

/** The options with every default filled in. */
export type MockSettings = ReturnType<typeof resolveMockOptions>;

const RANDOM_IDS: IdRange = { first: 0, count: 32_000 };

/** Fills in defaults. Throws a `RangeError` that names the option and its value. */
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

/** A sequence must be able to run alone, or it would wait or be preempted for ever. */
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

/** The engine model of mock and simulated workers, but for the size of its cache. */
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
