import type { RequestEnd, RequestRecorder } from './request-records.ts';

/** Models that are named; those beyond share one name, as every name is a metric that is paid for. */
const MODELS_MAX = 50;
/** Requests of one line; a function serves one at a time, and cancels and look-ups are none. */
const REQUESTS_MAX = 100;
const OTHER_MODELS = '__other__';
const NAMESPACE = 'Stator';

/** The one metric that is no count. */
const TTFT = 'TimeToFirstToken';
/** Requests that no resident router decided; not of a model. */
const FALLBACKS = 'RouterFallbacks';
/** Requests that were refused because nobody serves their model. */
const UNSERVED = 'Unserved';

export interface EmbeddedMetricsOptions {
  /** Name of the function, under which the metrics are found. */
  readonly functionName: string;
  readonly nowMs: () => number;
  /** Requests so far that were placed without a resident router, by why. */
  readonly fallbacks: () => Readonly<Record<string, number>>;
  /** Takes lines, with their ends. */
  readonly write: (text: string) => void;
}

/**
 * Metrics of a function in CloudWatch's embedded format: lines of its log, which cost no call and are written when the client has
 * its whole answer. Labels are the function and models that a worker has or had, of which there are few.
 */
export class EmbeddedMetrics implements Pick<RequestRecorder, 'requestEnded'> {
  readonly #options: EmbeddedMetricsOptions;
  readonly #models = new Set<string>();
  #ended: RequestEnd[] = [];
  #fallbacks: Readonly<Record<string, number>>;

  constructor(options: EmbeddedMetricsOptions) {
    this.#options = options;
    this.#fallbacks = options.fallbacks();
  }

  requestEnded(end: RequestEnd): void {
    if (this.#ended.length < REQUESTS_MAX) this.#ended.push(end);
  }

  /** Writes what has come since the last time; call it after the answer. */
  flush(): void {
    for (const end of this.#ended) this.#write(figuresOf(end), this.#nameOf(end));
    this.#ended = [];
    this.#flushFallbacks();
  }

  /** Why stands in the line beside the metric, for queries of the log: it is no label, which would be a metric more each. */
  #flushFallbacks(): void {
    const before = this.#fallbacks;
    const fallbacks = this.#options.fallbacks();
    this.#fallbacks = fallbacks;
    const grown = Object.entries(fallbacks)
      .map(([reason, count]) => [reason, count - (before[reason] ?? 0)] as const)
      .filter(([, count]) => count > 0);
    if (grown.length === 0) return;
    const sum = grown.reduce((total, [, count]) => total + count, 0);
    this.#write({ [FALLBACKS]: sum }, undefined, { FallbackReasons: Object.fromEntries(grown) });
  }

  /** A model that nobody has is a client's word, and no label. */
  #nameOf(end: RequestEnd): string | undefined {
    if (end.ttftMs === undefined && end.outputTokens === undefined && end.errorType !== 'unavailable') return undefined;
    if (!this.#models.has(end.model) && this.#models.size >= MODELS_MAX) return OTHER_MODELS;
    this.#models.add(end.model);
    return end.model;
  }

  #write(figures: Readonly<Record<string, number>>, model: string | undefined, beside: object = {}): void {
    const names = Object.keys(figures);
    if (names.length === 0) return;
    const Metrics = names.map((Name) => ({ Name, Unit: Name === TTFT ? 'Milliseconds' : 'Count' }));
    const Dimensions = [['FunctionName'], ...(model === undefined ? [] : [['FunctionName', 'Model']])];
    const line = {
      _aws: {
        Timestamp: Math.round(this.#options.nowMs()),
        CloudWatchMetrics: [{ Namespace: NAMESPACE, Dimensions, Metrics }],
      },
      FunctionName: this.#options.functionName,
      ...(model === undefined ? {} : { Model: model }),
      ...figures,
      ...beside,
    };
    this.#options.write(`${JSON.stringify(line)}\n`);
  }
}

function figuresOf({ ttftMs, outputTokens, errorType }: RequestEnd): Readonly<Record<string, number>> {
  return {
    ...(ttftMs === undefined ? {} : { [TTFT]: Math.round(ttftMs * 1000) / 1000 }),
    ...(outputTokens === undefined ? {} : { OutputTokens: outputTokens }),
    ...(errorType === 'unavailable' ? { [UNSERVED]: 1 } : {}),
  };
}
