/** Where CloudWatch has the metrics. */
export const EMBEDDED_NAMESPACE = 'Stator';

interface Described {
  readonly unit: string;
  readonly by: readonly (readonly string[])[];
  /**
   * Whether it is a gauge: containers report it all the time, functions never. The others are reported with requests.
   */
  readonly isGauge: boolean;
}

/**
 * Every metric with its unit and its dimensions, beside the dimension that names its source (`FunctionName` or
 * `Service`). CloudWatch bills each name with each of its sets of dimensions as a metric while values arrive: one for
 * each model, and for a while one for each release of a function.
 */
export const EMBEDDED_METRICS = {
  /** From the entry of a request to its first token. */
  TimeToFirstToken: { unit: 'Milliseconds', by: [[], ['Model']], isGauge: false },
  OutputTokens: { unit: 'Count', by: [[], ['Model']], isGauge: false },
  /** Requests that were refused because no worker serves their model. */
  Unserved: { unit: 'Count', by: [[], ['Model']], isGauge: false },
  /** For each request 1 if a fault of the frontend itself ended it, otherwise 0, so that the average is a rate. */
  InternalErrors: { unit: 'Count', by: [[], ['FunctionVersion']], isGauge: false },
  /** Requests that no resident router decided. */
  RouterFallbacks: { unit: 'Count', by: [[]], isGauge: false },
  /** Answers under way. */
  ActiveStreams: { unit: 'Count', by: [[]], isGauge: true },
  /** Workers that serve a model, or 0 if one of the roles that it needs is missing. */
  Workers: { unit: 'Count', by: [['Model']], isGauge: true },
  /** Age of what is known of the fleet. */
  ViewAge: { unit: 'Seconds', by: [[]], isGauge: true },
  /** Days since the secrets of the fleet were rotated. */
  SecretAge: { unit: 'None', by: [[]], isGauge: true },
} as const satisfies Record<string, Described>;

/** Name of one of `EMBEDDED_METRICS`. */
export type EmbeddedMetric = keyof typeof EMBEDDED_METRICS;

/** Metrics of edges with an index of cached blocks. They are reported only with failures, and cost nothing before. */
export const INDEX_METRICS = {
  /** Recoveries of the blocks of a worker that were given up. */
  FailedRecoveries: { unit: 'Count', by: [[]], isGauge: false },
} as const satisfies Record<string, Described>;

/** Name of one of `INDEX_METRICS`. */
export type IndexMetric = keyof typeof INDEX_METRICS;

/** Metrics of the functions around the planner, which serve no clients. */
export const PLANNER_METRICS = {
  /** Decisions of one batch: 0 or 1. `MessageGroup` is the model's in its queue. */
  Decisions: { unit: 'Count', by: [['MessageGroup']], isGauge: false },
  /** 1 if the newest decision of a model is not carried out, although the planner tries. */
  UnappliedDecisions: { unit: 'Count', by: [[]], isGauge: false },
  /** 1 if a model lacks machines, and every capacity option has failed. */
  CapacityStalled: { unit: 'Count', by: [[]], isGauge: false },
  /** Requests that all environments of the HTTP function hold for a model, every 5 s while there are any. */
  HeldRequests: { unit: 'Count', by: [['Model']], isGauge: true },
  /** Messages of its queue that say nothing to a planner. */
  UnknownEvents: { unit: 'Count', by: [[]], isGauge: false },
} as const satisfies Record<string, Described>;

/** Name of one of `PLANNER_METRICS`. */
export type PlannerMetric = keyof typeof PLANNER_METRICS;

/** Metrics of the planner's function about fleets of pods. */
export const POD_METRICS = {
  /** Capacity options of a model whose pods find no node. */
  NodesMissing: { unit: 'Count', by: [['MessageGroup']], isGauge: false },
  /** Capacity options of a model whose pods have a node and do not start. */
  StartsFailed: { unit: 'Count', by: [['MessageGroup']], isGauge: false },
} as const satisfies Record<string, Described>;

/** Name of one of `POD_METRICS`. */
export type PodMetric = keyof typeof POD_METRICS;

/** Metrics of a machine with GPUs, with a value for each GPU. */
const HOST_METRICS = {
  GpuUse: { unit: 'Percent', by: [[]], isGauge: true },
  GpuMemoryUse: { unit: 'Percent', by: [[]], isGauge: true },
  GpuTemperature: { unit: 'None', by: [[]], isGauge: true },
  /** Uncorrected memory errors since the driver was loaded. */
  GpuEccErrors: { unit: 'Count', by: [[]], isGauge: true },
  /** Fatal errors that the driver has reported since the last line. */
  GpuXids: { unit: 'Count', by: [[]], isGauge: true },
} as const satisfies Record<string, Described>;

const ALL_METRICS = { ...EMBEDDED_METRICS, ...INDEX_METRICS, ...PLANNER_METRICS, ...POD_METRICS, ...HOST_METRICS };

/** Content of one line: a value, or the values of several requests or GPUs. */
export type EmbeddedFigures = Partial<Record<keyof typeof ALL_METRICS, number | readonly number[]>>;

/** Source of the values: a function, or a service whose containers count as one. */
export type EmbeddedSource =
  | { readonly dimension: 'FunctionName'; readonly name: string; readonly version?: string | undefined }
  | { readonly dimension: 'Service'; readonly name: string };

interface Told {
  readonly source: EmbeddedSource;
  /** That the figures are of. */
  readonly model?: string | undefined;
  /** Message group of a planner's queue that the figures are of. */
  readonly messageGroup?: string | undefined;
  /** Unix ms. */
  readonly timeMs: number;
  /** Fields of the line that are not metrics. @default none */
  readonly beside?: object;
}

/** A line in CloudWatch's embedded format, with its end. */
export function renderEmbedded(
  figures: EmbeddedFigures,
  { source, model, messageGroup, timeMs, beside }: Told,
): string {
  const version = source.dimension === 'FunctionName' ? source.version : undefined;
  const labels = { Model: model, FunctionVersion: version, MessageGroup: messageGroup };
  const line = {
    _aws: {
      Timestamp: Math.round(timeMs),
      CloudWatchMetrics: directivesOf(Object.keys(figures) as (keyof EmbeddedFigures)[], source.dimension, labels),
    },
    [source.dimension]: source.name,
    ...(model === undefined ? {} : { Model: model }),
    ...(messageGroup === undefined ? {} : { MessageGroup: messageGroup }),
    ...(version !== undefined && 'InternalErrors' in figures ? { FunctionVersion: version } : {}),
    ...Object.fromEntries(Object.entries(figures).map(([name, value]) => [name, single(value)])),
    ...beside,
  };
  return `${JSON.stringify(line)}\n`;
}

function single(value: number | readonly number[]): number | readonly number[] {
  return typeof value !== 'number' && value.length === 1 ? value[0]! : value;
}

/** Returns what tells CloudWatch which parts of a line are metrics, with one entry for each set of dimensions. */
function directivesOf(
  names: readonly (keyof EmbeddedFigures)[],
  who: string,
  labels: Readonly<Record<string, string | undefined>>,
): readonly object[] {
  const entries = new Map<string, { readonly Dimensions: string[][]; readonly Metrics: object[] }>();
  for (const name of names) {
    const { unit, by } = ALL_METRICS[name];
    const sets: readonly (readonly string[])[] = by;
    const Dimensions = sets
      .filter((set) => set.every((label) => labels[label] !== undefined))
      .map((set) => [who, ...set]);
    const key = JSON.stringify(Dimensions);
    const entry = entries.get(key) ?? { Dimensions, Metrics: [] };
    entries.set(key, entry);
    entry.Metrics.push({ Name: name, Unit: unit });
  }
  return [...entries.values()].map((entry) => ({ Namespace: EMBEDDED_NAMESPACE, ...entry }));
}
