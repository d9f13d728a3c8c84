import type { KvRouterConfig } from '../../scheduler/index.ts';
import type { Point } from './search.ts';

/** A value of one axis: as flags, and as the router takes it. */
interface AxisValue {
  readonly flags: Readonly<Record<string, string>>;
  readonly kv: Partial<KvRouterConfig>;
}

/** One setting, or two that belong together. */
interface DynamoAxis {
  readonly values: readonly AxisValue[];
  /** Place of the default. */
  readonly origin: number;
}

function numbers(
  flag: string,
  field: 'prefillLoadScale' | 'overlapScoreCredit' | 'overlapScoreCreditDecay' | 'decodeActiveRequestWeight',
  values: readonly number[],
  byDefault: number,
): DynamoAxis {
  return {
    values: values.map((value) => ({ flags: { [flag]: String(value) }, kv: { [field]: value } })),
    origin: values.indexOf(byDefault),
  };
}

const QUEUES = [
  [undefined, 'fcfs'],
  [16, 'fcfs'],
  [0.5, 'wspt'],
  [0, 'wspt'],
] as const;

/**
 * Settings of Dynamo's formula that the search varies. The temperature stays 0: any other only adds chance. The others
 * of the formula weigh tiers that simulated workers do not have.
 */
const AXES: readonly DynamoAxis[] = [
  numbers('router-prefill-load-scale', 'prefillLoadScale', [0.5, 1, 2, 4, 8, 16, 32], 1),
  numbers('router-kv-overlap-score-credit', 'overlapScoreCredit', [0.5, 1, 2, 4], 1),
  numbers('router-kv-overlap-score-credit-decay', 'overlapScoreCreditDecay', [0, 0.25, 1, 4], 0),
  numbers('router-decode-active-request-weight', 'decodeActiveRequestWeight', [0, 4, 16, 64, 256], 0),
  {
    values: QUEUES.map(([threshold, policy]) => ({
      flags: { 'router-queue-threshold': String(threshold ?? 'None'), 'router-queue-policy': policy },
      kv: { queueThreshold: threshold, queuePolicy: policy },
    })),
    origin: 1,
  },
];

/** Dynamo's own defaults. */
export const DEFAULT_POINT: Point = AXES.map(({ origin }) => origin);

/** Number of values of each setting. */
export const DYNAMO_AXES: readonly number[] = AXES.map(({ values }) => values.length);

/** Points with which the search begins: the defaults, and every prefill scale with and without decay and weight. */
export const DYNAMO_GRID: readonly Point[] = [
  DEFAULT_POINT,
  ...AXES[0]!.values.map((_, scale) => [scale, 1, 0, 0, 0]),
  ...[1, 3, 5].flatMap((scale) => [
    [scale, 1, 2, 0, 0],
    [scale, 1, 0, 2, 0],
  ]),
  [6, 3, 0, 0, 3],
];

/** Returns the router's configuration at a point. */
export function configAt(point: Point): Partial<KvRouterConfig> {
  const parts = AXES.map(({ values }, axis) => values[point[axis]!]!.kv);
  return Object.assign({ costModel: 'dynamo', routerTemperature: 0 }, ...parts);
}

/** Returns the flags of a point that differ from the defaults, without dashes. */
export function flagsAt(point: Point): Readonly<Record<string, string>> {
  const parts = AXES.map(({ values, origin }, axis) => {
    const at = point[axis]!;
    return at === origin ? {} : values[at]!.flags;
  });
  return Object.assign({ 'router-cost-model': 'dynamo' }, ...parts);
}
