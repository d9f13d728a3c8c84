import { parse } from 'yaml';
import * as z from 'zod';
import { KvRouterConfigError } from '../kv-config.ts';
import { readGivenConfig } from '../kv-config-sources.ts';
import type { PolicyClass, PolicyConfig, PolicyProfile } from './policy-config.ts';

const FIELD = 'router_policy_config';
const name = z.string().regex(/^[A-Za-z_][A-Za-z0-9_-]*$/, 'must be a word of letters, digits, _ and -');
const limit = z.int().min(1).optional();

const classSchema = z.strictObject({
  name,
  policy_family: name.optional(),
  cache_bucket: name.optional(),
  queue_policy: z.enum(['fcfs', 'wspt']).optional(),
  quantum: z.int().min(1),
  prefill_busy_threshold: z.int().min(0).optional(),
  prefill_busy_threshold_frac: z.number().min(0).optional(),
  busy_worker_ratio: z.number().gt(0).max(1).optional(),
  request_queue_limit_per_worker: limit,
  raw_isl_token_queue_limit_per_worker: limit,
  cached_token_queue_limit_per_worker: limit,
});

const profileSchema = z.strictObject({
  default_policy_family: name.optional(),
  uncached_isl_buckets: z.array(z.strictObject({ min_tokens: z.int().min(0), bucket: name })).optional(),
  policy_classes: z.array(classSchema).min(1).optional(),
});

const fileSchema = z.strictObject({
  ...profileSchema.shape,
  models: z.record(z.string(), profileSchema).optional(),
  router: z.record(z.string(), z.unknown()).optional(),
  worker_selection: z.record(z.string(), z.unknown()).optional(),
});

type ClassRow = z.infer<typeof classSchema>;
type ProfileRow = z.infer<typeof profileSchema>;

/**
 * Reads `--router-policy-config`.
 *
 *     default_policy_family: standard
 *     uncached_isl_buckets: [{ min_tokens: 0, bucket: cached }, { min_tokens: 3072, bucket: uncached }]
 *     policy_classes:
 *       - { name: short, policy_family: standard, cache_bucket: cached, queue_policy: wspt, quantum: 2048 }
 *       - { name: long, policy_family: standard, cache_bucket: uncached, queue_policy: fcfs, quantum: 512 }
 *     models: { some/model: ... }      # the same three fields; replaces the common ones
 *     router: { prefill_load_scale: 2 }
 *
 * @throws KvRouterConfigError that names the field
 */
export function parsePolicyConfig(yaml: string): PolicyConfig {
  const file = parseFile(yaml);
  const selections = Object.entries(file.worker_selection ?? {}).filter(([, policy]) => policy !== 'default');
  if (selections.length > 0) {
    throw invalid(`worker_selection.${selections[0]?.[0]} must be default: other policies are not built`);
  }
  const models = new Map<string, PolicyProfile>();
  for (const [model, row] of Object.entries(file.models ?? {})) models.set(model, readProfile(row, `models.${model}.`));
  const root = file.policy_classes === undefined ? undefined : readProfile(file, '');
  return { root, models, settings: readGivenConfig(file.router ?? {}) };
}

function parseFile(yaml: string): z.infer<typeof fileSchema> {
  let value: unknown;
  try {
    value = parse(yaml) ?? {};
  } catch (cause) {
    throw invalid(`is not YAML: ${(cause as Error).message.split('\n')[0]}`);
  }
  const result = fileSchema.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const path = issue?.path.join('.') ?? '';
  throw invalid(`${path === '' ? 'it' : path}: ${issue?.message ?? 'is not valid'}`);
}

function invalid(message: string): KvRouterConfigError {
  return new KvRouterConfigError(FIELD, `--router-policy-config: ${message}`);
}

function readProfile(row: ProfileRow, path: string): PolicyProfile {
  const rows = row.policy_classes ?? [];
  const buckets = row.uncached_isl_buckets ?? [];
  checkNames(rows, path);
  checkBuckets(buckets, path);
  const families = familiesOf(rows, buckets, path);
  const fallback = families.get(row.default_policy_family ?? '');
  if (fallback === undefined) {
    throw invalid(`${path}default_policy_family must be one of ${[...families.keys()].join(', ') || 'the families'}`);
  }
  const explicit = new Map<string, number>();
  for (const [at, { name, policy_family }] of rows.entries()) if (policy_family === undefined) explicit.set(name, at);
  return {
    classes: rows.map(toClass),
    missingIslLimits: [],
    classOf(asked, uncachedTokens) {
      const direct = asked === undefined ? undefined : explicit.get(asked);
      if (direct !== undefined) return direct;
      const family = (asked === undefined ? undefined : families.get(asked)) ?? fallback;
      const missing = uncachedTokens();
      const bucket = buckets.findLastIndex(({ min_tokens }) => min_tokens <= missing);
      return family[bucket] as number;
    },
  };
}

function checkNames(rows: readonly ClassRow[], path: string): void {
  const seen = new Set<string>();
  for (const { name } of rows) {
    if (seen.has(name)) throw invalid(`${path}policy_classes: ${name} is listed twice`);
    seen.add(name);
  }
}

function checkBuckets(buckets: readonly { min_tokens: number }[], path: string): void {
  if (buckets[0]?.min_tokens !== 0) throw invalid(`${path}uncached_isl_buckets must start with min_tokens 0`);
  for (let at = 1; at < buckets.length; at++) {
    if ((buckets[at]?.min_tokens ?? 0) <= (buckets[at - 1]?.min_tokens ?? 0)) {
      throw invalid(`${path}uncached_isl_buckets: min_tokens must rise`);
    }
  }
}

/**
 * Returns class positions by family, in the order of the buckets. Every family must have exactly one class for each.
 */
function familiesOf(
  rows: readonly ClassRow[],
  buckets: readonly { bucket: string }[],
  path: string,
): ReadonlyMap<string, readonly number[]> {
  const families = new Map<string, (number | undefined)[]>();
  for (const [at, { name, policy_family: family, cache_bucket: bucket }] of rows.entries()) {
    if (family === undefined && bucket === undefined) continue;
    const position = buckets.findIndex((row) => row.bucket === bucket);
    if (family === undefined || position === -1) {
      throw invalid(`${path}policy_classes: ${name} needs both a policy_family and a cache_bucket of the list`);
    }
    const classes = families.get(family) ?? [];
    if (classes[position] !== undefined) {
      throw invalid(`${path}policy_classes: family ${family} has two classes for bucket ${bucket}`);
    }
    classes[position] = at;
    families.set(family, classes);
  }
  for (const [family, classes] of families) {
    const missing = buckets.find((_, position) => classes[position] === undefined);
    if (missing !== undefined) {
      throw invalid(`${path}policy_classes: family ${family} has no class for bucket ${missing.bucket}`);
    }
  }
  return families as Map<string, number[]>;
}

function toClass(row: ClassRow): PolicyClass {
  return {
    name: row.name,
    policy: row.queue_policy ?? 'auto',
    quantumTokens: row.quantum,
    busyTokens: row.prefill_busy_threshold,
    busyFraction: row.prefill_busy_threshold_frac,
    busyShare: row.busy_worker_ratio ?? 1,
    hasOwnBounds: true,
    requestsPerWorkerMax: row.request_queue_limit_per_worker,
    promptTokensPerWorkerMax: row.raw_isl_token_queue_limit_per_worker,
    cachedTokensPerWorkerMax: row.cached_token_queue_limit_per_worker,
  };
}
