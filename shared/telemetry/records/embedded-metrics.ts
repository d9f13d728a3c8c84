import { type EmbeddedFigures, type EmbeddedSource, renderEmbedded } from './embedded-format.ts';
import type { RequestEnd, RequestRecorder } from './request-records.ts';

/** Models that are named; those beyond share one name, as every name is a metric that is paid for. */
export const EMBEDDED_MODELS_MAX = 50;
/** Values of a metric in one line, as many as CloudWatch reads. */
const VALUES_MAX = 100;
const DAY_MS = 24 * 60 * 60 * 1000;
const OTHER_MODELS = '__other__';

/** Values that are measured when they are written. An absent one is not written. */
export interface EmbeddedGauges {
  readonly activeStreams?: number;
  readonly viewAgeMs?: number;
  readonly secretAgeMs?: number;
  /** By model. */
  readonly workers?: ReadonlyMap<string, number>;
}

export interface EmbeddedMetricsOptions {
  readonly source: EmbeddedSource;
  readonly nowMs: () => number;
  /** Values of a counter by one of its labels (`MetricRegistry.totalsBy`); none before it is there. */
  readonly totals: (metric: string, label: string) => Readonly<Record<string, number>>;
  /** @default nothing is measured */
  readonly gauges?: () => EmbeddedGauges;
  /** Takes lines, with their ends. */
  readonly write: (text: string) => void;
}

/** Counts of a model since the last time. */
interface ModelFigures {
  readonly ttftMs: number[];
  outputTokens: number | undefined;
  unserved: number;
}

/**
 * Metrics in CloudWatch's embedded format: lines of the log, which cost no call. A function writes them when the client
 * has its whole answer, a container every few seconds for all requests since. Labels are who tells them and models that
 * a worker has or had, of which there are few.
 */
export class EmbeddedMetrics implements Pick<RequestRecorder, 'requestEnded'> {
  readonly #options: EmbeddedMetricsOptions;
  readonly #models = new Set<string>();
  /** Models that had workers at some time: they are reported with 0 once they have none. */
  readonly #served = new Set<string>();
  readonly #fallbacks: Growth;
  readonly #requests: Growth;
  readonly #handlerFailures: Growth;
  readonly #recoveries: Growth;
  #failed = 0;
  #figures = new Map<string, ModelFigures>();

  constructor(options: EmbeddedMetricsOptions) {
    this.#options = options;
    const growthOf = (metric: string, label: string): Growth => new Growth(() => options.totals(metric, label));
    this.#fallbacks = growthOf('stator_router_fallbacks_total', 'reason');
    this.#requests = growthOf('dynamo_frontend_requests_total', 'error_type');
    this.#handlerFailures = growthOf('stator_frontend_handler_failures_total', '');
    this.#recoveries = growthOf('stator_router_kv_recoveries_total', 'outcome');
  }

  requestEnded(end: RequestEnd): void {
    const { ttftMs, outputTokens, errorType } = end;
    const isUnserved = errorType === 'unavailable';
    // A client's word must not become a label.
    if (ttftMs === undefined && outputTokens === undefined && !isUnserved) return;
    const model = this.#nameOf(end.model);
    const figures = this.#figures.get(model) ?? { ttftMs: [], outputTokens: undefined, unserved: 0 };
    this.#figures.set(model, figures);
    if (ttftMs !== undefined) figures.ttftMs.push(Math.round(ttftMs * 1000) / 1000);
    if (outputTokens !== undefined) figures.outputTokens = (figures.outputTokens ?? 0) + outputTokens;
    if (isUnserved) figures.unserved++;
    if (figures.ttftMs.length < VALUES_MAX) return;
    this.#figures.delete(model);
    this.#write(figuresOf(figures), model);
  }

  /** A request failed by a fault of the host's own, before anything could count it. */
  failed(): void {
    this.#failed++;
  }

  /** Writes what has come since the last time; in a function after the answer. */
  flush(): void {
    const { activeStreams, viewAgeMs, secretAgeMs, workers } = this.#options.gauges?.() ?? {};
    const models = new Map([...this.#figures].map(([model, figures]) => [model, figuresOf(figures)]));
    this.#figures = new Map();
    if (workers !== undefined) this.#addWorkers(models, workers);
    const [internalErrors = [], ...more] = this.#internalErrors();
    const fallbacks = this.#fallbacks.take();
    const failedRecoveries = this.#recoveries.take().get('failed');
    const own: EmbeddedFigures = {
      ...(internalErrors.length === 0 ? {} : { InternalErrors: internalErrors }),
      ...(fallbacks.size === 0 ? {} : { RouterFallbacks: sumOf(fallbacks) }),
      ...(failedRecoveries === undefined ? {} : { FailedRecoveries: failedRecoveries }),
      ...(activeStreams === undefined ? {} : { ActiveStreams: activeStreams }),
      ...(viewAgeMs === undefined ? {} : { ViewAge: Math.round(viewAgeMs) / 1000 }),
      ...(secretAgeMs === undefined ? {} : { SecretAge: Math.floor(secretAgeMs / DAY_MS) }),
    };
    // Why stands beside the metric, for queries of the log: as a label it would be a metric more each.
    const beside = fallbacks.size === 0 ? {} : { FallbackReasons: Object.fromEntries(fallbacks) };
    const [first, ...others] = models.size === 0 ? ([[undefined, {}]] as const) : models;
    this.#write({ ...first?.[1], ...own }, first?.[0], beside);
    for (const [model, figures] of others) this.#write(figures, model);
    for (const values of more) this.#write({ InternalErrors: values }, undefined);
  }

  /** Writes the requests since the last time, in as many lines as they take. */
  #internalErrors(): readonly (readonly number[])[] {
    const requests = this.#requests.take();
    const outside = this.#failed + sumOf(this.#handlerFailures.take());
    this.#failed = 0;
    const internal = (requests.get('internal') ?? 0) + outside;
    const all = sumOf(requests) + outside;
    const values = Array.from({ length: all }, (_, at) => (at < internal ? 1 : 0));
    return Array.from({ length: Math.ceil(all / VALUES_MAX) }, (_, at) =>
      values.slice(at * VALUES_MAX, (at + 1) * VALUES_MAX),
    );
  }

  #addWorkers(models: Map<string, EmbeddedFigures>, workers: ReadonlyMap<string, number>): void {
    for (const model of workers.keys()) if (this.#nameOf(model) === model) this.#served.add(model);
    for (const model of this.#served) models.set(model, { ...models.get(model), Workers: workers.get(model) ?? 0 });
  }

  #nameOf(model: string): string {
    if (!this.#models.has(model) && this.#models.size >= EMBEDDED_MODELS_MAX) return OTHER_MODELS;
    this.#models.add(model);
    return model;
  }

  #write(figures: EmbeddedFigures, model: string | undefined, beside: object = {}): void {
    if (Object.keys(figures).length === 0) return;
    const { source, nowMs, write } = this.#options;
    write(renderEmbedded(figures, { source, model, timeMs: nowMs(), beside }));
  }
}

/** Returns what was added to a counter since the last call, by a label. */
class Growth {
  readonly #read: () => Readonly<Record<string, number>>;
  #before: Readonly<Record<string, number>>;

  constructor(read: () => Readonly<Record<string, number>>) {
    this.#read = read;
    this.#before = read();
  }

  take(): ReadonlyMap<string, number> {
    const [before, now] = [this.#before, this.#read()];
    this.#before = now;
    const grown = Object.entries(now).map(([label, total]) => {
      const was = before[label] ?? 0;
      return [label, total < was ? total : total - was] as const; // a counter that begins anew
    });
    return new Map(grown.filter(([, count]) => count > 0));
  }
}

function sumOf(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((sum, count) => sum + count, 0);
}

function figuresOf({ ttftMs, outputTokens, unserved }: ModelFigures): EmbeddedFigures {
  return {
    ...(ttftMs.length === 0 ? {} : { TimeToFirstToken: ttftMs }),
    ...(outputTokens === undefined ? {} : { OutputTokens: outputTokens }),
    ...(unserved === 0 ? {} : { Unserved: unserved }),
  };
}
