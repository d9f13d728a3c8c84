import type { Clock } from '../../clock/index.ts';
import type { EngineLoad } from '../../engines/index.ts';
import { type ServeError, toServeError, workerError } from '../../errors/index.ts';
import type { IncomingCall } from '../../planes/index.ts';
import {
  type ClaimAnswer,
  decodeQuestion,
  encodeClaimAnswer,
  encodeQuotes,
  type HoldTerms,
  PlaceBook,
  type PlaceClaim,
  placeOn,
  type QuotedRank,
} from '../../stateless-router/index.ts';

export interface QuoteServiceOptions {
  readonly clock: Clock;
  readonly blockSizeTokens: number;
  /** Returns the load, with one entry for each rank. */
  load(): readonly EngineLoad[];
  /**
   * Returns the leading prompt tokens that each rank has cached, in the order of `load`. Caches below the device count
   * with their weight.
   */
  cachedTokens(sequence: Uint32Array): readonly number[];
  /** Returns why the worker takes no request now; undefined = it takes requests. */
  refusal(): ServeError | undefined;
  /** Called when a promised place is not counted, because there are too many. */
  onUncountedPlace?(): void;
}

/** Answers how much a prompt would cost here, and promises places to requests that are about to come. */
export class QuoteService {
  readonly #options: QuoteServiceOptions;
  readonly #places: PlaceBook;

  constructor(options: QuoteServiceOptions) {
    this.#options = options;
    this.#places = new PlaceBook(options.clock, options.onUncountedPlace);
  }

  readonly serve = (call: IncomingCall): void => {
    const refusal = this.#options.refusal();
    if (refusal !== undefined) {
      call.fail(refusal);
      return;
    }
    try {
      const body = this.#answer(call);
      call.accept();
      call.output({ body });
      call.end();
    } catch (thrown) {
      call.fail(toServeError(thrown));
    }
  };

  /** Notes that a request has come, which the engine's own numbers contain from now on. */
  arrived(requestId: string): void {
    this.#places.arrived(requestId);
  }

  #answer({ body, tokenIds }: IncomingCall): unknown {
    const question = decodeQuestion(body, tokenIds);
    if (question.kind === 'claim') return encodeClaimAnswer(this.#claim(question.claim));
    const ranks = this.#quotes(question.sequence, question.blockSizeTokens);
    return encodeQuotes({ ranks, heldAt: question.hold === undefined ? undefined : this.#hold(question.hold, ranks) });
  }

  /** Promises a place on the given terms if one is available, and returns its rank. */
  #hold(terms: HoldTerms, ranks: readonly QuotedRank[]): number | undefined {
    const place = placeOn(terms, ranks);
    if (place !== undefined) this.#places.hold(place);
    return place?.dpRank;
  }

  #quotes(sequence: Uint32Array, blockSizeTokens: number): readonly QuotedRank[] {
    const { load, cachedTokens, blockSizeTokens: own } = this.#options;
    const cached = blockSizeTokens === own ? cachedTokens(sequence) : []; // blocks of another size have other hashes
    return load().map((rank, at) => ({
      dpRank: rank.dpRank,
      cachedTokens: cached[at] ?? 0,
      prefillTokens: this.#prefillTokens(rank),
      activeBlocks: rank.usedKvBlocks,
    }));
  }

  #claim({ id, dpRank, tokens, prefillTokensMax }: PlaceClaim): ClaimAnswer {
    const rank = this.#options.load().find((each) => each.dpRank === dpRank);
    if (rank === undefined) throw workerError('InvalidArgument', `no rank ${dpRank} is here`);
    const prefillTokens = this.#prefillTokens(rank);
    const isHeld = prefillTokens <= prefillTokensMax;
    if (isHeld) this.#places.hold({ id, dpRank, tokens });
    return { isHeld, prefillTokens };
  }

  #prefillTokens({ activePrefillTokens, dpRank }: EngineLoad): number {
    return activePrefillTokens + this.#places.tokensOf(dpRank);
  }
}
