import { bestQuote, CLAIMS_MAX, PlaceBook, type RankQuote } from '../router/quotes/index.ts';
import type { RendezvousKey } from '../router/stateless/index.ts';
import type { PoolView } from './routers.ts';
import type { SimulatedRank } from './simulated-rank.ts';
import type { SimulatedRequest } from './simulated-request.ts';

export interface AskedWorkersOptions {
  readonly dataParallelSize: number;
  readonly blockSizeTokens: number;
  /** A question and its answer on their ways. */
  readonly delayMs: number;
}

/** A request with what it prefers. */
export interface AskingRequest {
  readonly request: SimulatedRequest;
  readonly draw: RendezvousKey;
}

/**
 * Workers that are asked what a prompt would cost, and for a place, as `WorkerAsker` asks them: the way there and the way back
 * take time, in which others ask.
 */
export class AskedWorkers {
  readonly #pool: PoolView;
  readonly #options: AskedWorkersOptions;
  readonly #books = new Map<number, PlaceBook>(); // by worker

  constructor(pool: PoolView, options: AskedWorkersOptions) {
    this.#pool = pool;
    this.#options = options;
  }

  /** Asks workers by number; `decided` is told of the rank, by its place in the pool. */
  ask({ request, draw }: AskingRequest, workers: readonly number[], decided: (rank: number) => void): void {
    this.#later(0.5, () => {
      const quotes = workers.flatMap((worker) => this.#quotesOf(request, worker));
      this.#later(0.5, () => this.#claim({ request, draw }, quotes, CLAIMS_MAX, decided));
    });
  }

  #claim({ request, draw }: AskingRequest, quotes: RankQuote[], left: number, decided: (rank: number) => void): void {
    const { id, promptLength: tokens } = request;
    const { blockSizeTokens } = this.#options;
    const best = bestQuote({ id, draw, tokens, blockSizeTokens }, quotes);
    const { dpRank, workerId } = best.quote;
    const worker = Number.parseInt(workerId, 16);
    const rank = worker * this.#options.dataParallelSize + dpRank;
    this.#later(0.5, () => {
      const prefillTokens = this.#prefillTokens(rank);
      if (prefillTokens > best.prefillTokensMax && left > 1) {
        const now = quotes.map((quote) => (quote === best.quote ? { ...quote, prefillTokens } : quote));
        this.#later(0.5, () => this.#claim({ request, draw }, now, left - 1, decided));
        return;
      }
      this.#book(worker).hold({ id, dpRank, tokens: best.uncachedTokens });
      this.#later(1, () => {
        this.#book(worker).arrived(id);
        decided(rank);
      });
    });
  }

  #quotesOf(request: SimulatedRequest, worker: number): RankQuote[] {
    const { dataParallelSize } = this.#options;
    return Array.from({ length: dataParallelSize }, (_, dpRank) => {
      const rank = worker * dataParallelSize + dpRank;
      const { activeBlocks } = this.#rank(rank);
      const cachedTokens = this.#rank(rank).cachedTokens(request);
      return {
        workerId: worker.toString(16),
        dpRank,
        cachedTokens,
        prefillTokens: this.#prefillTokens(rank),
        activeBlocks,
      };
    });
  }

  #prefillTokens(rank: number): number {
    const { worker, dpRank, pendingPrefillTokens } = this.#rank(rank);
    return pendingPrefillTokens + this.#book(worker).tokensOf(dpRank);
  }

  #rank(at: number): SimulatedRank {
    return this.#pool.ranks[at]!;
  }

  #book(worker: number): PlaceBook {
    const known = this.#books.get(worker);
    if (known !== undefined) return known;
    const pool = this.#pool;
    const book = new PlaceBook({ nowMs: () => pool.nowMs });
    this.#books.set(worker, book);
    return book;
  }

  #later(trips: number, act: () => void): void {
    this.#pool.after(trips * this.#options.delayMs, act);
  }
}
