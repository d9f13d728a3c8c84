import type { Clock } from '../../clock/index.ts';
import { ConfigError } from '../../config/index.ts';
import { invariant } from '../../errors/index.ts';

type Labels = Readonly<Record<string, string>>;

/** A number that only grows. */
export class Counter {
  value = 0;

  add(amount = 1): void {
    this.value += amount;
  }

  /** Returns the series in Prometheus text form. @param labels their text, without braces */
  print(name: string, labels: string): string {
    return lineOf(name, labels, this.value);
  }
}

/** A number that goes both ways. */
export class Gauge extends Counter {
  set(value: number): void {
    this.value = value;
  }
}

/**
 * One histogram series: plain counts in a typed array, made cumulative only when scraped.
 *
 *     bounds  [b0, b1, ... bn-1]
 *     counts  [<= b0, (b0, b1], ... , > bn-1]
 */
export class Histogram {
  readonly #counts: Float64Array;
  readonly #bounds: Float64Array;
  #sum = 0;

  constructor(bounds: Float64Array) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  /** Counts `value` `times` times. */
  observe(value: number, times = 1): void {
    const bounds = this.#bounds;
    // A linear scan: latencies of a healthy system sit in the first few buckets, and 20 comparisons are no more than a
    // mispredicted branch or two.
    let at = 0;
    while (at < bounds.length && value > bounds[at]!) at++;
    this.#counts[at]! += times;
    this.#sum += value * times;
  }

  /** Returns the series in Prometheus text form, as `Counter.print` does. */
  print(name: string, labels: string): string {
    const others = labels === '' ? '' : `,${labels}`;
    let seen = 0;
    let text = '';
    for (const [at, count] of this.#counts.entries()) {
      seen += count;
      text += lineOf(`${name}_bucket`, `le="${this.#bounds[at] ?? '+Inf'}"${others}`, seen);
    }
    return text + lineOf(`${name}_sum`, labels, this.#sum) + lineOf(`${name}_count`, labels, seen);
  }
}

function lineOf(name: string, labels: string, value: number): string {
  const shown = Math.abs(value) === Number.POSITIVE_INFINITY ? (value > 0 ? '+Inf' : '-Inf') : value;
  return labels === '' ? `${name} ${shown}\n` : `${name}{${labels}} ${shown}\n`;
}

function labelsText(labels: Labels): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}="${escaped(value).replaceAll('"', '\\"')}"`)
    .join(',');
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
}

/** Keeps `gauge` at the seconds since this call. */
export function exposeUptime(registry: MetricRegistry, clock: Clock, gauge: Gauge): void {
  const startedMs = clock.nowMs();
  registry.beforeScrape(() => gauge.set((clock.nowMs() - startedMs) / 1000));
}

/** Hears what a collector did not get: there was no room to keep it, or the collector refused it. */
export type TelemetryDropped = (kind: 'spans' | 'lines', count: number) => void;

/** Beginning of the names of a frontend's own metrics, unless `--metrics-prefix` says otherwise. */
const FRONTEND_PREFIX = 'dynamo_frontend';

/**
 * Turns what an operator wrote into a legal metric prefix: `my-pre.fix` becomes `my_pre_fix`; nothing usable, the
 * default.
 */
export function metricPrefix(text: string | undefined): string {
  const legal = (text ?? '').replaceAll(/[^a-zA-Z0-9_:]/g, '_').replace(/^(?=[0-9])/, '_');
  return /^_*$/.test(legal) ? FRONTEND_PREFIX : legal;
}

/** Series a family keeps before further label values fall into one shared series. */
const SERIES_MAX_DEFAULT = 10_000;

/** Value of every label of the series that takes what no longer fits under a family's bound. */
export const OVERFLOW_LABEL = '__other__';

interface FamilyOptions<S> {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  /** Names of the labels in which its series differ. */
  readonly labelNames: readonly string[];
  /** Labels that all of its series have, before those. */
  readonly shared: Labels;
  readonly makeSeries: () => S;
  readonly seriesMax: number;
  readonly onOverflow: (name: string) => void;
}

/**
 * A metric with its series. Look a series up once, keep it, and count on it with plain arithmetic: hashing labels at
 * every call would cost more than the rest of a short request's metrics together.
 */
export class MetricFamily<S extends Counter | Histogram> {
  readonly name: string;
  readonly #options: FamilyOptions<S>;
  readonly #series = new Map<string, { readonly labels: Labels; readonly series: S }>();

  constructor(options: FamilyOptions<S>) {
    this.name = options.name;
    this.#options = options;
    if (options.labelNames.length === 0) this.with();
  }

  /** The series with these label values, in the order of the family's label names; made at zero on first use. */
  with(...values: string[]): S {
    const { labelNames, shared, makeSeries, onOverflow, seriesMax } = this.#options;
    if (values.length !== labelNames.length) throw new Error(`${this.name} has ${labelNames.length} labels`);
    const key = values.join('\0');
    const known = this.#series.get(key);
    if (known !== undefined) return known.series;
    const isFull = this.#series.size >= seriesMax && values.some((value) => value !== OVERFLOW_LABEL);
    if (isFull) {
      onOverflow(this.name);
      return this.with(...labelNames.map(() => OVERFLOW_LABEL));
    }
    const own = Object.fromEntries(labelNames.map((label, at) => [label, values[at]!]));
    const series = makeSeries();
    this.#series.set(key, { labels: { ...shared, ...own }, series });
    return series;
  }

  /** Forgets every series whose `labelName` is `value`. A caller that kept one counts into nothing from then on. */
  removeWhere(labelName: string, value: string): void {
    for (const [key, { labels }] of this.#series) if (labels[labelName] === value) this.#series.delete(key);
  }

  /** Returns the sums that `MetricRegistry.totalsBy` describes. */
  totalsBy(label: string): Readonly<Record<string, number>> {
    const totals: Record<string, number> = {};
    for (const { labels, series } of this.#series.values()) {
      if (!(series instanceof Counter)) continue;
      const key = labels[label] ?? '';
      totals[key] = (totals[key] ?? 0) + series.value;
    }
    return totals;
  }

  /** Returns the metric and its series in Prometheus text form. */
  print(): string {
    const { help, type, name } = this.#options;
    let text = `# HELP ${name} ${escaped(help)}\n# TYPE ${name} ${type}\n`;
    for (const { labels, series } of this.#series.values()) text += series.print(name, labelsText(labels));
    return text;
  }
}

/**
 * Makes metrics whose names begin alike and whose series share labels. A metric without labels of its own begins with
 * its one series at zero.
 */
export interface MetricScope {
  counter(name: string, help: string, ...labelNames: string[]): MetricFamily<Counter>;
  gauge(name: string, help: string, ...labelNames: string[]): MetricFamily<Gauge>;
  /** `bounds` ascend; the bucket for everything above the last is added. */
  histogram(name: string, help: string, bounds: readonly number[], ...labelNames: string[]): MetricFamily<Histogram>;
}

export interface MetricRegistryOptions {
  /** Beginning of the names of a frontend's own metrics in place of `dynamo_frontend`. @default they keep it */
  readonly frontendPrefix?: string | undefined;
  /** Series a family keeps. Default 10,000; beyond it everything counts on one series whose labels are `__other__`. */
  readonly seriesMax?: number;
}

/** All metrics of a process. */
export class MetricRegistry implements MetricScope {
  readonly #families = new Map<string, MetricFamily<Counter | Histogram>>();
  readonly #seriesMax: number;
  readonly #frontendPrefix: string;
  readonly #beforeScrape: (() => void)[] = [];
  readonly #overflow: MetricFamily<Counter>;
  readonly counter: MetricScope['counter'];
  readonly gauge: MetricScope['gauge'];
  readonly histogram: MetricScope['histogram'];

  constructor({ seriesMax = SERIES_MAX_DEFAULT, frontendPrefix = FRONTEND_PREFIX }: MetricRegistryOptions = {}) {
    this.#seriesMax = seriesMax;
    this.#frontendPrefix = frontendPrefix;
    ({ counter: this.counter, gauge: this.gauge, histogram: this.histogram } = this.under(''));
    this.#overflow = this.counter(
      'stator_metric_series_overflow_total',
      'Look-ups of a series that counted on the shared one, because the metric holds as many series as it may.',
      'metric',
    );
  }

  /** Makes metrics whose names begin with `prefix` and whose series all have the labels `shared`, before their own. */
  under(prefix: string, shared: Labels = {}): MetricScope {
    const about = (name: string, help: string, labelNames: readonly string[]) => ({
      name: this.#named(prefix + name),
      help,
      labelNames,
      shared,
    });
    return {
      counter: (name, help, ...labels) => this.#add('counter', about(name, help, labels), () => new Counter()),
      gauge: (name, help, ...labels) => this.#add('gauge', about(name, help, labels), () => new Gauge()),
      histogram: (name, help, bounds, ...labels) => {
        const upper = Float64Array.from(bounds);
        return this.#add('histogram', about(name, help, labels), () => new Histogram(upper));
      },
    };
  }

  /** Tells operators that something of `metric` was counted on a shared series for want of room. */
  countOverflow(metric: string): void {
    this.#overflow.with(metric).add();
  }

  /** Runs `update` before every scrape, for values that are computed rather than counted. */
  beforeScrape(update: () => void): void {
    this.#beforeScrape.push(update);
  }

  get contentType(): string {
    return 'text/plain; version=0.0.4; charset=utf-8';
  }

  /**
   * Returns the values of a counter by one of its labels, summed over its other labels. If the counter has no such
   * label, its whole value is under `''`; if there is no counter of that name, the record is empty.
   * @param name the name without `--metrics-prefix`
   */
  totalsBy(name: string, label: string): Readonly<Record<string, number>> {
    return this.#families.get(this.#named(name))?.totalsBy(label) ?? {};
  }

  /** Returns every metric in Prometheus text form. */
  render(): string {
    for (const update of this.#beforeScrape) update();
    return Array.from(this.#families.values(), (family) => family.print()).join('\n');
  }

  /** The name as it is shown: every metric of a frontend follows its prefix, whichever room makes it. */
  #named(name: string): string {
    return name.startsWith(`${FRONTEND_PREFIX}_`) ? this.#frontendPrefix + name.slice(FRONTEND_PREFIX.length) : name;
  }

  #refuseName(name: string): never {
    invariant(this.#frontendPrefix !== FRONTEND_PREFIX, `a metric is named ${name} already`);
    throw new ConfigError([
      `--metrics-prefix ${this.#frontendPrefix} gives two metrics the name ${name}: choose another prefix`,
    ]);
  }

  #add<S extends Counter | Histogram>(
    type: FamilyOptions<S>['type'],
    about: Pick<FamilyOptions<S>, 'name' | 'help' | 'labelNames' | 'shared'>,
    makeSeries: () => S,
  ): MetricFamily<S> {
    const seriesMax = this.#seriesMax;
    const onOverflow = (metric: string): void => this.countOverflow(metric);
    const family = new MetricFamily({ ...about, type, makeSeries, seriesMax, onOverflow });
    if (this.#families.has(about.name)) this.#refuseName(about.name);
    this.#families.set(about.name, family);
    return family;
  }
}

/** `stator_telemetry_dropped_total{kind}` in `registry`. */
export function countDroppedTelemetry(registry: MetricRegistry): TelemetryDropped {
  const about = 'Spans and log lines that no collector got.';
  const family = registry.counter('stator_telemetry_dropped_total', about, 'kind');
  for (const kind of ['spans', 'lines']) family.with(kind).add(0);
  return (kind, count) => family.with(kind).add(count);
}
