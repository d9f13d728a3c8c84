import type { Clock } from '../../clock/index.ts';
import type { TrafficTotals } from '../../protocol/planner/index.ts';
import { NO_TRAFFIC } from '../../protocol/planner-topics/index.ts';

/** One request, as it is counted: nothing a token. */
export interface TrafficMeter {
  /** The first output is there. */
  firstOutput(): void;
  /** Of its prompt so many tokens lay in the cache. */
  cached(tokens: number): void;
  /** It is over. Only what was answered to its end counts as such. */
  end(isComplete: boolean, outputTokens: number): void;
}

/** Counts the requests of a worker for a planner: sums since the worker began. */
export class TrafficCounter {
  readonly #clock: Clock;
  readonly #totals: Record<keyof TrafficTotals, number> = { ...NO_TRAFFIC };

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get totals(): TrafficTotals {
    return { ...this.#totals };
  }

  /** A request came and was not taken. */
  refused(isRetry: boolean): void {
    if (!isRetry) this.#totals.started++;
  }

  /** @param isRetry it was at another worker before, where it counted */
  begin(promptTokens: number, isRetry: boolean): TrafficMeter {
    const totals = this.#totals;
    const clock = this.#clock;
    const startedMs = clock.nowMs();
    let firstMs: number | undefined;
    if (!isRetry) {
      totals.started++;
      totals.isl_sum += promptTokens;
      totals.isl_count++;
    }
    return {
      firstOutput() {
        firstMs = clock.nowMs();
        totals.ttft_sum_s += (firstMs - startedMs) / 1000;
        totals.ttft_count++;
      },
      cached(tokens) {
        totals.kv_hit_sum += Math.min(tokens, promptTokens);
        totals.kv_hit_count += promptTokens;
      },
      end(isComplete, outputTokens) {
        const nowMs = clock.nowMs();
        if (firstMs !== undefined && outputTokens > 1) {
          totals.itl_sum_s += (nowMs - firstMs) / 1000;
          totals.itl_count += outputTokens - 1;
        }
        if (!isComplete) return;
        totals.completed++;
        totals.osl_sum += outputTokens;
        totals.osl_count++;
        totals.dur_sum_s += (nowMs - startedMs) / 1000;
        totals.dur_count++;
      },
    };
  }
}

/** Of requests that are nobody's traffic. */
export const UNSEEN: TrafficMeter = { firstOutput() {}, cached() {}, end() {} };
