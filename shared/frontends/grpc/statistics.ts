import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ModelStatisticsResponseSchema } from '../../grpc/messages/index.ts';

/** How one request went. */
interface NotedRequest {
  readonly hasSucceeded: boolean;
  /** From its coming to its end. */
  readonly ms: number;
  /** Unix time. */
  readonly wallMs: number;
}

interface Counts {
  succeeded: number;
  succeededMs: number;
  failed: number;
  failedMs: number;
  lastWallMs: number;
}

const NS_PER_MS = 1e6;
/** Models that are remembered, the latest ones. */
const MODELS_MAX = 1024;

/**
 * What this process has served of each model by gRPC, as `ModelStatistics` tells it. One request is one inference and one
 * execution; what happens inside of workers is theirs to tell.
 */
export class InferStatistics {
  readonly #models = new Map<string, Counts>();

  noted(model: string, { hasSucceeded, ms, wallMs }: NotedRequest): void {
    const counts = this.#models.get(model) ?? { succeeded: 0, succeededMs: 0, failed: 0, failedMs: 0, lastWallMs: 0 };
    this.#models.delete(model);
    this.#models.set(model, counts);
    if (this.#models.size > MODELS_MAX) for (const [oldest] of this.#models) return void this.#models.delete(oldest);
    counts.lastWallMs = wallMs;
    if (hasSucceeded) {
      counts.succeeded++;
      counts.succeededMs += ms;
    } else {
      counts.failed++;
      counts.failedMs += ms;
    }
  }

  /** Of the models of those names; zeros of one that was never asked. */
  of(names: readonly string[]): MessageInitShape<typeof ModelStatisticsResponseSchema> {
    return { modelStats: names.map((name) => statisticsOf(name, this.#models.get(name))) };
  }
}

function statisticsOf(name: string, counts: Counts | undefined) {
  const { succeeded = 0, succeededMs = 0, failed = 0, failedMs = 0, lastWallMs = 0 } = counts ?? {};
  return {
    name,
    version: '1',
    lastInference: BigInt(Math.round(lastWallMs)),
    inferenceCount: BigInt(succeeded),
    executionCount: BigInt(succeeded),
    inferenceStats: {
      success: duration(succeeded, succeededMs),
      fail: duration(failed, failedMs),
      queue: duration(0, 0),
      computeInput: duration(0, 0),
      computeInfer: duration(succeeded, succeededMs),
      computeOutput: duration(0, 0),
      cacheHit: duration(0, 0),
      cacheMiss: duration(0, 0),
    },
  };
}

function duration(count: number, ms: number) {
  return { count: BigInt(count), ns: BigInt(Math.round(ms * NS_PER_MS)) };
}
