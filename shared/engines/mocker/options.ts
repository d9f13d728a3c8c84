import type { ModelType } from '../../discovery/index.ts';
import type { SchedulerOptions } from './scheduler.ts';
import { type IdRange, type PassageTokens, passageTokens } from './token-cursor.ts';
import type { TransfersOptions } from './transfers.ts';

/** Settings of a mock engine (runtime-and-workers.md, section 9.1). Every one is optional. */
export interface MockEngineOptions {
  /** KV blocks per rank. Default 16384. */
  readonly numGpuBlocks?: number;
  /** Tokens per KV block. Default 64. */
  readonly blockSizeTokens?: number;
  /** Longest sequence in tokens. Default and upper bound: what the KV cache of one rank holds. */
  readonly maxModelLen?: number | undefined;
  /** Sequences in one pass. Default 256. */
  readonly maxNumSeqs?: number;
  /** Tokens computed in one pass. Default 8192. */
  readonly maxNumBatchedTokens?: number;
  /** Default true. */
  readonly enablePrefixCaching?: boolean;
  /** Default true. Without it a prompt must fit into one pass, which bounds the context to `maxNumBatchedTokens`. */
  readonly enableChunkedPrefill?: boolean;
  /** Default `lifo`. */
  readonly preemptionMode?: 'lifo' | 'fifo';
  /** How much faster than the modelled GPU. Default 1. */
  readonly speedupRatio?: number;
  /** Multiplies `speedupRatio` for decoding. Default 1. */
  readonly decodeSpeedupRatio?: number;
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
  };
  /** Ids of random output. Default 0 to 31999. */
  readonly randomIds?: IdRange;
  /** Default Chat and Completions. */
  readonly modelType?: readonly ModelType[];
  /** Computes prompts for decode engines: keeps the blocks of each until one has fetched them. Default false. */
  readonly isPrefill?: boolean;
  /** Whether what the cache holds is told. Default: as `enablePrefixCaching`. */
  readonly publishesKvEvents?: boolean;
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

/** The options with every default filled in. */
export interface MockSettings {
  readonly scheduler: SchedulerOptions;
  readonly contextLength: number;
  readonly dataParallelSize: number;
  readonly startupTimeMs: number;
  readonly seed: number;
  readonly waitingRequestsMax: number;
  readonly text: PassageTokens | undefined;
  readonly randomIds: IdRange;
  readonly modelType: readonly ModelType[];
  readonly publishesKvEvents: boolean;
  readonly transfer: Omit<TransfersOptions, 'clock' | 'network'>;
}

const RANDOM_IDS: IdRange = { first: 0, count: 32_000 };

/** Fills in defaults. Throws a `RangeError` that names the option and its value. */
export function resolveMockOptions(options: MockEngineOptions): MockSettings {
  const scheduler: SchedulerOptions = {
    numGpuBlocks: whole('numGpuBlocks', options.numGpuBlocks ?? 16_384),
    blockSizeTokens: whole('blockSizeTokens', options.blockSizeTokens ?? 64),
    maxNumSeqs: whole('maxNumSeqs', options.maxNumSeqs ?? 256),
    maxNumBatchedTokens: whole('maxNumBatchedTokens', options.maxNumBatchedTokens ?? 8192),
    enablePrefixCaching: options.enablePrefixCaching ?? true,
    enableChunkedPrefill: options.enableChunkedPrefill ?? true,
    preemptionMode: options.preemptionMode ?? 'lifo',
    speedupRatio: ratio('speedupRatio', options.speedupRatio ?? 1),
    decodeSpeedupRatio: ratio('decodeSpeedupRatio', options.decodeSpeedupRatio ?? 1),
  };
  const randomIds = options.randomIds ?? RANDOM_IDS;
  whole('randomIds.count', randomIds.count);
  return {
    scheduler,
    contextLength: contextLength(scheduler, options.maxModelLen),
    dataParallelSize: whole('dataParallelSize', options.dataParallelSize ?? 1),
    startupTimeMs: ratio('startupTimeMs', options.startupTimeMs ?? 0),
    seed: options.seed ?? 0,
    waitingRequestsMax: whole('waitingRequestsMax', options.waitingRequestsMax ?? 16_384),
    text:
      options.readableTokenIds && passageTokens(options.readableTokenIds.passages, options.readableTokenIds.separator),
    randomIds,
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
