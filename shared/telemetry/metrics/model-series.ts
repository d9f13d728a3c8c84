import type { FrontendFamilies } from './frontend-families.ts';
import { OVERFLOW_LABEL } from './registry.ts';
import type { Counter, Gauge, Histogram } from './series.ts';

/** Route family and kind of response of a request: labels `endpoint` and `request_type`. */
export type RequestTypeLabel = 'unary' | 'stream';

/** Counters of one model on one route, looked up once. */
export class RouteSeries {
  readonly started: Counter;
  readonly cancellations: Counter;
  readonly #families: FrontendFamilies;
  readonly #labels: readonly [string, string, string];
  readonly #success: Counter;
  readonly #errors = new Map<string, Counter>(); // error types are a closed list

  constructor(families: FrontendFamilies, model: string, endpoint: string, requestType: RequestTypeLabel) {
    this.#families = families;
    this.#labels = [model, endpoint, requestType];
    this.started = families.started.with(...this.#labels);
    this.cancellations = families.cancellations.with(...this.#labels);
    this.#success = families.requests.with(...this.#labels, 'success', '');
  }

  /** The counter of requests that ended so; `errorType` is undefined for success. */
  ended(errorType: string | undefined): Counter {
    if (errorType === undefined) return this.#success;
    let counter = this.#errors.get(errorType);
    if (counter === undefined) {
      counter = this.#families.requests.with(...this.#labels, 'error', errorType);
      this.#errors.set(errorType, counter);
    }
    return counter;
  }
}

/** Every series of one model that a request touches, looked up once. */
export class ModelSeries {
  readonly model: string;
  readonly inflight: Gauge;
  readonly active: Gauge;
  readonly queued: Gauge;
  readonly duration: Histogram;
  readonly inputTokens: Histogram;
  readonly outputLength: Histogram;
  readonly cachedTokens: Histogram;
  readonly outputTokens: Counter;
  readonly ttft: Histogram;
  readonly itl: Histogram;
  readonly #families: FrontendFamilies;
  readonly #unary = new Map<string, RouteSeries>(); // by endpoint, a closed list
  readonly #stream = new Map<string, RouteSeries>();

  constructor(families: FrontendFamilies, model: string) {
    this.model = model;
    this.inflight = families.inflight.with(model);
    this.active = families.active.with(model);
    this.queued = families.queued.with(model);
    this.duration = families.duration.with(model);
    this.inputTokens = families.inputTokens.with(model);
    this.outputLength = families.outputLength.with(model);
    this.cachedTokens = families.cachedTokens.with(model);
    this.outputTokens = families.outputTokens.with(model);
    this.ttft = families.ttft.with(model);
    this.itl = families.itl.with(model);
    this.#families = families;
  }

  route(endpoint: string, requestType: RequestTypeLabel): RouteSeries {
    const routes = requestType === 'unary' ? this.#unary : this.#stream;
    let route = routes.get(endpoint);
    if (route === undefined) {
      route = new RouteSeries(this.#families, this.model, endpoint, requestType);
      routes.set(endpoint, route);
    }
    return route;
  }
}

/**
 * The series of every model asked for so far. Names can come from clients, so there is a bound: what comes after
 * `modelsMax` names counts on one shared model, `__other__`.
 */
export class ModelSeriesTable {
  readonly #families: FrontendFamilies;
  readonly #modelsMax: number;
  readonly #onOverflow: () => void;
  readonly #models = new Map<string, ModelSeries>();
  #other: ModelSeries | undefined;

  constructor(families: FrontendFamilies, modelsMax: number, onOverflow: () => void) {
    this.#families = families;
    this.#modelsMax = modelsMax;
    this.#onOverflow = onOverflow;
  }

  of(model: string): ModelSeries {
    const known = this.#models.get(model);
    if (known !== undefined) return known;
    if (this.#models.size >= this.#modelsMax) {
      this.#onOverflow();
      this.#other ??= new ModelSeries(this.#families, OVERFLOW_LABEL);
      return this.#other;
    }
    const series = new ModelSeries(this.#families, model);
    this.#models.set(model, series);
    return series;
  }
}
