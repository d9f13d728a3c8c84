import type { ConfigView } from './checks.ts';
import { nameOf, type SettingName, TABLE } from './table.ts';

const BUCKETS = [
  ['metricsRequestDurationMin', 'metricsRequestDurationMax'],
  ['metricsInputSequenceMin', 'metricsInputSequenceMax'],
  ['metricsOutputSequenceMin', 'metricsOutputSequenceMax'],
  ['metricsTtftMin', 'metricsTtftMax'],
  ['metricsItlMin', 'metricsItlMax'],
  ['metricsEmbeddingLatencyMin', 'metricsEmbeddingLatencyMax'],
] as const satisfies readonly (readonly [SettingName, SettingName])[];

function defaultNumber(setting: SettingName): number {
  const value = TABLE.get(setting)?.default;
  if (typeof value !== 'number') throw new TypeError(`${setting} has no number as its default`);
  return value;
}

/** Bucket limits that cross fall back to their defaults. */
function straightenBuckets({ values }: ConfigView): readonly string[] {
  const warnings: string[] = [];
  for (const [low, high] of BUCKETS) {
    const lowest = values[low];
    const highest = values[high];
    if (lowest === undefined || highest === undefined || lowest < highest) continue;
    values[low] = defaultNumber(low);
    values[high] = defaultNumber(high);
    warnings.push(`${nameOf(low)} ${lowest} is not below ${nameOf(high)} ${highest}: the defaults are used`);
  }
  return warnings;
}

/** The deprecated weight is the prefill scale by another name; 0 meant no credit for overlap too. */
function translateOverlapWeight({ values, given }: ConfigView): void {
  const weight = values.routerKvOverlapScoreWeight;
  if (weight === undefined) return;
  if (!given.has('routerPrefillLoadScale')) values.routerPrefillLoadScale = weight;
  if (weight === 0 && !given.has('routerKvOverlapScoreCredit')) values.routerKvOverlapScoreCredit = 0;
}

/** Weights of Dynamo's formula: one that is set keeps its meaning. */
const WEIGHTS = [
  'routerKvOverlapScoreCredit',
  'routerKvOverlapScoreCreditDecay',
  'routerKvOverlapScoreWeight',
  'routerPrefillLoadScale',
  'routerDecodeActiveRequestWeight',
  'routerHostCacheHitWeight',
  'routerDiskCacheHitWeight',
  'sharedCacheMultiplier',
  'routerTemperature',
] as const satisfies readonly SettingName[];

/** Whoever sets a weight gets the formula that has it; what a policy file sets is known when it is read. */
function chooseCostModel({ values, given }: ConfigView): void {
  if (!WEIGHTS.some((weight) => given.has(weight))) return;
  for (const setting of ['routerCostModel', 'costModel'] as const) {
    if (values[setting] === 'auto') values[setting] = 'dynamo';
  }
}

/** Where Triton's clients look first. */
const TRITON_PORT = 8001;

/** A process with the role of a router answers others, too; one with the role of gRPC has a port for it. */
function translateRoles({ values }: ConfigView): void {
  if (values.roles?.includes('router') === true) values.routerRole ??= 'resident';
  if (values.roles?.includes('grpc') === true && values.kserveGrpcServer !== true) values.grpcPort ??= TRITON_PORT;
}

/** The load-only preset is one of mode `kv`. */
function translateLoadAware({ values }: ConfigView): void {
  if (values.loadAware === true && values.routerMode !== undefined) values.routerMode = 'kv';
}

function translateWorkerRole({ values, given }: ConfigView): void {
  if (given.has('disaggregationMode')) return;
  if (values.isPrefillWorker === true) values.disaggregationMode = 'prefill';
  else if (values.isDecodeWorker === true || values.multimodalDecodeWorker === true)
    values.disaggregationMode = 'decode';
  else if (values.multimodalEncodeWorker === true) values.disaggregationMode = 'encode';
}

/** Lets settings that stand for others take effect. Changes `view.values`; returns warnings. */
export function applyImplications(view: ConfigView): readonly string[] {
  translateOverlapWeight(view);
  chooseCostModel(view);
  translateLoadAware(view);
  translateRoles(view);
  translateWorkerRole(view);
  return straightenBuckets(view);
}
