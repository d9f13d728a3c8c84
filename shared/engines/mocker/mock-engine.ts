import { type ServeError, workerError } from '../../errors/index.ts';
import type { EngineFinishReason, EngineRequest } from '../../protocol/index.ts';
import { type BlockHasher, createBlockHasher } from '../../tokens/index.ts';
import type { Engine, EngineInfo, EngineLoad, EnginePass, EngineSink, KvEvent } from '../types.ts';
import { choiceCount, type Limits, LiveRequest, LiveSequence, limitsOf } from './live-request.ts';
import { type MockEngineDeps, type MockEngineOptions, type MockSettings, resolveMockOptions } from './options.ts';
import { createRank, type Rank } from './rank.ts';
import { type NameScope, TokenNames } from './sequence.ts';
import { RandomCursor, ReadableCursor, ThinkingCursor, type TokenCursor } from './token-cursor.ts';
import { Transfers } from './transfers.ts';

/** Tokens of output that a new sequence has room for; more is allocated when needed. */
const SPARE_TOKENS = 64;
/** Distance between the seeds of the choices of one request. Choice 0 has the request's own. */
const CHOICE_SEED_STEP = 0x3c6e_f372;

/**
 * Creates an engine without a model: it has the timing and memory of a GPU engine, and its output is a built-in text or
 * random ids. The output depends on the seed and the tokens before it, never on the request id, so a request that moves
 * to another mock worker continues exactly.
 *
 * @throws RangeError when an option is out of range.
 * @example const engine = createMockEngine({ speedupRatio: 10 }, { clock: systemClock });
 */
export function createMockEngine(options: MockEngineOptions, deps: MockEngineDeps): Engine {
  return new MockEngine(resolveMockOptions(options), deps);
}

class MockEngine implements Engine {
  readonly kind = 'mocker';
  readonly #settings: MockSettings;
  readonly #deps: MockEngineDeps;
  readonly #ranks: readonly Rank[];
  readonly #baseHasher: BlockHasher;
  readonly #live = new Set<LiveRequest>();
  readonly #transfers: Transfers | undefined;
  #state: 'new' | 'ready' | 'stopped' = 'new';
  #onKvEvents: ((events: readonly KvEvent[]) => void) | undefined;
  #onPass: ((pass: EnginePass) => void) | undefined;

  constructor(settings: MockSettings, deps: MockEngineDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#baseHasher = createBlockHasher({ blockSizeTokens: settings.scheduler.blockSizeTokens });
    const { handoffs: network, clock } = deps;
    this.#transfers = network && new Transfers({ ...settings.transfer, clock, network });
    this.#ranks = Array.from({ length: settings.dataParallelSize }, (_, dpRank) =>
      createRank(
        dpRank,
        settings,
        deps,
        (events) => this.#onKvEvents?.(events),
        () => this.#onPass,
      ),
    );
  }

  async start(signal: AbortSignal): Promise<EngineInfo> {
    const { scheduler, startupTimeMs, contextLength, dataParallelSize, modelType, transfer } = this.#settings;
    if (startupTimeMs > 0) await this.#deps.clock.sleep(startupTimeMs, signal);
    const meeting = await this.#transfers?.open();
    for (const { publisher } of this.#ranks) await publisher?.open();
    if (this.#state === 'new') this.#state = 'ready';
    return {
      contextLength,
      kvBlockSizeTokens: scheduler.blockSizeTokens,
      totalKvBlocks: scheduler.numGpuBlocks,
      maxNumSeqs: scheduler.maxNumSeqs,
      maxNumBatchedTokens: scheduler.maxNumBatchedTokens,
      dataParallelSize,
      modelInput: 'Tokens',
      modelType,
      publishesKvEvents: this.#settings.publishesKvEvents,
      takesPromptEmbeds: false,
      ...(meeting !== undefined && transfer.bootstrapPort !== undefined
        ? { bootstrapHost: meeting.host, bootstrapPort: meeting.port }
        : {}),
    };
  }

  generate(request: EngineRequest, sink: EngineSink, signal: AbortSignal): void {
    if (signal.aborted) return;
    const rank = this.#rankFor(request);
    const refusal = this.#refusalOf(request, rank);
    if (refusal !== undefined || rank === undefined || request.input.kind !== 'tokens') {
      sink.fail(refusal ?? workerError('InvalidArgument', 'this model takes token ids'));
      return;
    }
    let stopFetching: (() => void) | undefined;
    const onAbort = (): void => {
      this.#live.delete(live);
      stopFetching?.();
      for (const sequence of live.sequences) rank.scheduler.cancel(sequence);
      rank.loop.wake(); // it may have blocked others
      // the waiting decode engine will get no blocks
      if (this.#settings.transfer.isPrefill) this.#transfers?.release(request);
    };
    const onClosed = (): void => signal.removeEventListener('abort', onAbort);
    const live = this.#open(request, request.input.tokenIds, rank, sink, onClosed);
    signal.addEventListener('abort', onAbort, { once: true });
    stopFetching = this.#fetch(request, live, rank, () => {
      for (const sequence of live.sequences) rank.scheduler.submit(sequence);
      rank.loop.wake();
    });
  }

  releasePrefill(request: EngineRequest): void {
    this.#transfers?.release(request);
  }

  /**
   * Fetches the blocks that another engine has computed for `live`, if one has; then runs `go`. Returns a function that
   * stops it.
   */
  #fetch(request: EngineRequest, live: LiveRequest, { scheduler }: Rank, go: () => void): (() => void) | undefined {
    const source = this.#transfers?.sourceOf(request);
    const [first] = live.sequences;
    if (source === undefined || first === undefined) {
      go();
      return undefined;
    }
    const { movesMissingOnly } = this.#settings.transfer;
    const tokens = (): number => first.promptLength - (movesMissingOnly ? scheduler.cachedTokens(first) : 0);
    const moved = (): void => {
      for (const sequence of live.sequences) sequence.isTransferred = true;
      go();
    };
    return this.#transfers?.fetch(source, tokens, moved, (reason) =>
      live.fail(workerError('BackendProtocol', `the blocks of the prompt were not received: ${reason}`)),
    );
  }

  async health(): Promise<void> {
    if (this.#state !== 'ready') throw workerError('Unavailable', `mock engine is ${this.#state}`);
  }

  load(): readonly EngineLoad[] {
    return this.#ranks.map(({ scheduler }, dpRank) => ({
      dpRank,
      runningRequests: scheduler.runningCount,
      waitingRequests: scheduler.waitingCount,
      usedKvBlocks: scheduler.pool.active,
      totalKvBlocks: scheduler.pool.capacity,
      activePrefillTokens: scheduler.pendingPrefillTokens,
    }));
  }

  onKvEvents(listener: (events: readonly KvEvent[]) => void): void {
    this.#onKvEvents = listener;
  }

  onPasses(listener: (pass: EnginePass) => void): void {
    this.#onPass = listener;
  }

  async clearKvBlocks(): Promise<void> {
    const { enablePrefixCaching } = this.#settings.scheduler;
    for (const { scheduler, reportEvents } of enablePrefixCaching ? this.#ranks : []) {
      scheduler.pool.clear();
      reportEvents();
    }
  }

  /** Adapters change only the names of their blocks here: any may be loaded. */
  async loadLora(): Promise<void> {}

  async unloadLora(): Promise<void> {}

  async stop(): Promise<void> {
    this.#state = 'stopped';
    this.#onKvEvents = undefined;
    this.#onPass = undefined;
    for (const { loop } of this.#ranks) loop.stop();
    const open = [...this.#live];
    this.#live.clear();
    for (const live of open) live.sink.fail(workerError('EngineShutdown', 'mock engine stopped'));
    await this.#transfers?.close();
    await Promise.all(this.#ranks.map(({ publisher }) => publisher?.close()));
  }

  /** Returns the requested rank, otherwise the one with the fewest requests. */
  #rankFor(request: EngineRequest): Rank | undefined {
    const asked = request.routing.dp_rank;
    if (asked !== undefined) return this.#ranks[asked];
    const sizeOf = ({ scheduler }: Rank): number => scheduler.runningCount + scheduler.waitingCount;
    return this.#ranks.reduce((best, rank) => (sizeOf(rank) < sizeOf(best) ? rank : best));
  }

  #refusalOf(request: EngineRequest, rank: Rank | undefined): ServeError | undefined {
    if (this.#state !== 'ready') return workerError('EngineShutdown', `mock engine is ${this.#state}`);
    const { contextLength, waitingRequestsMax, dataParallelSize } = this.#settings;
    if (rank === undefined) {
      const range = `[0, ${dataParallelSize})`;
      return workerError('InvalidArgument', `data_parallel_rank ${request.routing.dp_rank} is out of range ${range}.`);
    }
    if (rank.scheduler.waitingCount >= waitingRequestsMax) {
      return workerError('WorkerOverloaded', `${waitingRequestsMax} requests are waiting already`);
    }
    const length = request.input.kind === 'tokens' ? request.input.tokenIds.length : 1;
    if (length === 0) return workerError('InvalidArgument', 'the prompt is empty');
    if (length >= contextLength) {
      return workerError(
        'InvalidArgument',
        `the prompt has ${length} tokens, which leaves no room in the context of ${contextLength} tokens`,
      );
    }
    if (request.stop.max_tokens === 0) return workerError('InvalidArgument', 'max_tokens must be at least 1, got 0');
    return undefined;
  }

  #open(request: EngineRequest, prompt: Uint32Array, rank: Rank, sink: EngineSink, onClosed: () => void): LiveRequest {
    const { contextLength, scheduler, randomIds, seed } = this.#settings;
    const limits = limitsOf(request, contextLength - prompt.length);
    const onDone = (): void => {
      this.#live.delete(live);
      onClosed();
    };
    const keep = this.#keeper(request, rank);
    const live = new LiveRequest(request, sink, limits, randomIds.first + randomIds.count, onDone, keep);
    const scope = scopeOf(request);
    const hasher = this.#hasherFor(scope);
    const spare = Math.min(limits.tokensMax, SPARE_TOKENS);
    for (let choice = 0; choice < choiceCount(request); choice++) {
      const choiceSeed = (request.sampling.seed ?? seed) + choice * CHOICE_SEED_STEP;
      const text = new TokenNames(prompt, spare, scheduler.blockSizeTokens, hasher, scope);
      const cursor = this.#cursorAfter(prompt, choiceSeed, limits);
      live.sequences.push(new LiveSequence(live, choice, text, cursor, limits.tokensMax));
    }
    this.#live.add(live);
    return live;
  }

  /**
   * Returns a function that keeps the blocks of a finished prefill, if they are needed. An end that the model chose
   * needs no decoding, but at a bootstrap port a decode engine waits all the same.
   */
  #keeper(request: EngineRequest, { scheduler, loop }: Rank) {
    const transfers = this.#transfers;
    if (transfers === undefined || !transfers.keeps(request)) return undefined;
    return (sequence: LiveSequence, reason: EngineFinishReason): unknown => {
      if (reason !== 'length' && request.bootstrapInfo === undefined) return undefined;
      sequence.keepsBlocks = true;
      return transfers.offer(request, () => {
        scheduler.letGo(sequence);
        loop.wake(); // there is room again
      });
    };
  }

  #hasherFor(scope: NameScope): BlockHasher {
    if (scope === UNSCOPED) return this.#baseHasher;
    return createBlockHasher({ blockSizeTokens: this.#settings.scheduler.blockSizeTokens, ...scope });
  }

  #cursorAfter(prompt: Uint32Array, seed: number, limits: Limits): TokenCursor {
    const { text, randomIds, thinking } = this.#settings;
    const marks = thinking === undefined ? [] : [thinking.startId, thinking.endId];
    const plain = text
      ? new ReadableCursor(seed, text)
      : new RandomCursor(seed, randomIds, [...limits.eosIds, ...marks]);
    const thoughtful = thinking && new ThinkingCursor(plain, thinking);
    const cursor = thoughtful ?? plain;
    for (const token of prompt) cursor.push(token);
    thoughtful?.begin(limits.tokensMax);
    return cursor;
  }
}

const UNSCOPED: NameScope = {};

/** Returns the scope of a request: adapters and cache salts name their blocks differently than the base model. */
function scopeOf({ routing: { lora_name: loraName, cache_salt: cacheSalt } }: EngineRequest): NameScope {
  return loraName || cacheSalt ? { loraName, cacheSalt } : UNSCOPED;
}
