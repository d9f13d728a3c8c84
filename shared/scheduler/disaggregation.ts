import type { Random } from '../clock/index.ts';
import { assertNever, ServeError } from '../errors/index.ts';
import type { RouterConfigOverride, RoutingConstraints, RoutingHints, StopConditions } from '../protocol/index.ts';
import type { RoutableWorker } from '../router/index.ts';
import { hasTaints, pinnedIn } from './eligibility.ts';
import { KvRouterConfigError } from './kv-config.ts';

/** Returns the stop conditions of the prefill stage, which generates one token and stops. */
export function prefillStop(stop: StopConditions): StopConditions {
  const { min_tokens: _, ...rest } = stop;
  return { ...rest, max_tokens: 1 };
}

/**
 * Returns the router settings of the decode stage. Another worker computes the prompt, so neither its prefill nor its
 * shared blocks count.
 * @param isConditional whether conditional disaggregation is on; then overlap keeps its credit
 */
export function decodeOverride(
  override: RouterConfigOverride | undefined,
  isConditional: boolean,
): RouterConfigOverride {
  const { overlap_score_weight: _, ...rest } = override ?? {};
  return {
    ...(isConditional ? (override ?? {}) : { ...rest, overlap_score_credit: 0 }),
    assume_kv_reuse: false,
    track_prefill_tokens: false,
  };
}

/**
 * Returns the id of the prefill worker that the request names. @throws ServeError if it names none: in mode direct the
 * router cannot choose one
 */
export function requirePrefillWorker({ prefill_worker_id: id }: RoutingHints): string {
  if (id !== undefined) return id;
  throw new ServeError(
    'invalid_value',
    'Invalid request: router mode "direct" needs the header x-dynamo-prefill-instance-id or nvext.prefill_worker_id',
    { param: 'nvext.prefill_worker_id' },
  );
}

/**
 * Returns a random room id for the handshake between the two stages, `0 .. 2^63 - 1` as decimal text. With a known rank
 * it is an id that the prefill worker maps to that rank: id mod size = rank.
 */
export function bootstrapRoom(random: Random, dp?: { readonly rank: number; readonly size: number }): string {
  const high = BigInt(random.below(0x8000_0000));
  const room = (high << 32n) | BigInt(random.below(0x1_0000_0000));
  if (dp === undefined || dp.size <= 1) return room.toString();
  const size = BigInt(dp.size);
  const adjusted = room - (room % size) + BigInt(dp.rank);
  return (adjusted <= ROOM_MAX ? adjusted : adjusted - size).toString();
}

const ROOM_MAX = 0x7fff_ffff_ffff_ffffn;

/**
 * Marks a request that its decode worker also prefills. Only the router may set it: it is removed from the annotations
 * of clients.
 */
export const BYPASS_ANNOTATION = 'x-bypass-remote-prefill';

/** Returns a client's annotations without the router's own mark. */
export function clientAnnotations(annotations: readonly string[]): readonly string[] {
  return annotations.includes(BYPASS_ANNOTATION)
    ? annotations.filter((annotation) => annotation !== BYPASS_ANNOTATION)
    : annotations;
}

/** Rule for when the decode worker prefills a prompt itself. */
export interface ConditionalDisaggregation {
  /**
   * Condition of the rule. `isl_bounding`: few tokens are left to compute. `prefill_load`: the chosen prefill worker is
   * full. `isl_or_load`: one of the two.
   */
  readonly policy: 'isl_bounding' | 'prefill_load' | 'isl_or_load';
  /** Uncached tokens below which few are left to compute; the share must be small, too. */
  readonly uncachedTokensMax: number;
  /** Uncached share of the prompt below which few tokens are left to compute. */
  readonly uncachedShareMax: number;
  /**
   * Multiple of its batched tokens above which a prefill worker is full. @default the queue threshold; undefined = it
   * is never full
   */
  readonly prefillBusyThreshold: number | undefined;
  /** Share of KV blocks in use above which a decode worker does not prefill. @default undefined: no such bound */
  readonly decodeBusyThreshold: number | undefined;
}

/** The decision for the two stages that would be made now (`Scheduler.explain`). */
export interface BypassFacts {
  readonly promptTokens: number;
  /** Prompt tokens that the chosen decode worker has cached. */
  readonly cachedTokens: number;
  /** Load of the chosen prefill worker; undefined = no worker is available. */
  readonly prefill: { readonly activeTokens: number; readonly batchedTokens: number } | undefined;
  /** Load of the chosen decode worker; undefined = unknown. */
  readonly decode: { readonly activeBlocks: number; readonly totalBlocks: number } | undefined;
}

/** Whether the decode worker should prefill the prompt itself. */
export function bypassesRemotePrefill(rule: ConditionalDisaggregation, facts: BypassFacts): boolean {
  const { decode } = facts;
  const { decodeBusyThreshold = Number.POSITIVE_INFINITY } = rule;
  if (decode !== undefined && decode.activeBlocks > decodeBusyThreshold * decode.totalBlocks) return false;
  switch (rule.policy) {
    case 'isl_bounding':
      return isShort(rule, facts);
    case 'prefill_load':
      return isPrefillFull(rule, facts);
    case 'isl_or_load':
      return isShort(rule, facts) || isPrefillFull(rule, facts);
    default:
      return assertNever(rule.policy);
  }
}

function isShort(rule: ConditionalDisaggregation, { promptTokens, cachedTokens }: BypassFacts): boolean {
  const uncached = Math.max(0, promptTokens - cachedTokens);
  return uncached < rule.uncachedTokensMax && uncached < rule.uncachedShareMax * promptTokens;
}

function isPrefillFull(
  { prefillBusyThreshold: threshold }: ConditionalDisaggregation,
  { prefill }: BypassFacts,
): boolean {
  if (prefill === undefined || threshold === undefined) return false;
  return prefill.activeTokens > threshold * prefill.batchedTokens;
}

const CONFIG_KEYS = [
  'policy',
  'eff_isl_threshold',
  'eff_isl_ratio_threshold',
  'prefill_busy_threshold',
  'decode_busy_threshold',
] as const;

/**
 * Reads `--router-conditional-disagg-config`. Without a value: `isl_bounding`, 2048, 0.7.
 * @param queueThreshold stands in for a missing `prefill_busy_threshold`
 * @throws KvRouterConfigError for an unknown key or value, and for a load policy without any threshold
 */
export function readConditionalDisaggregation(
  object: Readonly<Record<string, unknown>> = {},
  queueThreshold?: number,
): ConditionalDisaggregation {
  const unknown = Object.keys(object).find((key) => !CONFIG_KEYS.some((known) => known === key));
  if (unknown !== undefined) throw invalid(`${unknown} is unknown; known are ${CONFIG_KEYS.join(', ')}`);
  const number = (key: (typeof CONFIG_KEYS)[number], max = Number.MAX_VALUE): number | undefined => {
    const value = object[key] ?? undefined;
    if (value === undefined || (typeof value === 'number' && value >= 0 && value <= max)) return value;
    throw invalid(`${key} must be a number from 0${max === Number.MAX_VALUE ? '' : ` to ${max}`}`);
  };
  const policy = object.policy ?? 'isl_bounding';
  if (policy !== 'isl_bounding' && policy !== 'prefill_load' && policy !== 'isl_or_load') {
    throw invalid('policy must be isl_bounding, prefill_load or isl_or_load');
  }
  const prefillBusyThreshold = number('prefill_busy_threshold') ?? queueThreshold;
  if (policy !== 'isl_bounding' && prefillBusyThreshold === undefined) {
    throw invalid(`policy ${policy} needs prefill_busy_threshold or router_queue_threshold`);
  }
  return {
    policy,
    uncachedTokensMax: number('eff_isl_threshold') ?? 2048,
    uncachedShareMax: number('eff_isl_ratio_threshold', 1) ?? 0.7,
    prefillBusyThreshold,
    decodeBusyThreshold: number('decode_busy_threshold'),
  };
}

function invalid(message: string): KvRouterConfigError {
  return new KvRouterConfigError('conditional_disagg_config', `conditional_disagg_config: ${message}`);
}

/** A prefill worker's rule for the decode workers that its KV blocks may travel to. */
export interface KvTransferPolicy {
  /** Taint of the decode workers that are near. */
  readonly taint: string;
  /** Weight of the preference for them, 0 to 1; undefined = no other worker may be chosen. */
  readonly preferredWeight: number | undefined;
}

/** Fields of a card that say where its worker is. Names as on the wire. */
export interface TopologyFields {
  readonly topology_domains?: Readonly<Record<string, string>>;
  readonly kv_transfer_domain?: string;
  readonly kv_transfer_enforcement?: 'required' | 'preferred';
  readonly kv_transfer_preferred_weight?: number;
}

/** Returns the taint that tells every router a worker's place in a domain. */
export function topologyTaint(domain: string, value: string): string {
  return `dynamo.topology/${domain}=${value}`;
}

/**
 * Returns the fault of the fields, in words for the operator; undefined if they are valid. Names and values of domains
 * are not empty, have no spaces around them, and contain no `=`. The transfer domain is one of the domains. Only
 * `preferred` takes a weight.
 */
export function topologyFault(fields: TopologyFields): string | undefined {
  const { topology_domains: domains = {}, kv_transfer_domain: domain, kv_transfer_preferred_weight: weight } = fields;
  for (const text of Object.entries(domains).flat()) {
    if (text === '' || text.trim() !== text || text.includes('=')) {
      return `${JSON.stringify(text)} is not a name or value of a topology domain: it must not be empty, have spaces around it or contain "="`;
    }
  }
  if (domain === undefined) return undefined;
  if (domains[domain] === undefined) return `the transfer domain ${domain} is not among the topology domains`;
  const isPreferred = fields.kv_transfer_enforcement === 'preferred';
  if (isPreferred && !(weight !== undefined && weight >= 0 && weight <= 1)) return 'preferred needs a weight of 0 to 1';
  return isPreferred || weight === undefined ? undefined : 'only preferred takes a weight';
}

/** Returns the policy that a card states; undefined = blocks may travel anywhere, or the card is invalid. */
export function kvTransferPolicy(fields: TopologyFields): KvTransferPolicy | undefined {
  const { topology_domains: domains = {}, kv_transfer_domain: domain } = fields;
  const value = domain === undefined ? undefined : domains[domain];
  if (domain === undefined || value === undefined || topologyFault(fields) !== undefined) return undefined;
  return { taint: topologyTaint(domain, value), preferredWeight: fields.kv_transfer_preferred_weight };
}

/** Returns the client's constraints with the policy of the prefill worker added. */
export function withTransferPolicy(
  constraints: RoutingConstraints | undefined,
  { taint, preferredWeight }: KvTransferPolicy,
): RoutingConstraints {
  const { required_taints: required = [], preferred_taints: preferred = {} } = constraints ?? {};
  return preferredWeight === undefined
    ? { ...constraints, required_taints: [...required, taint] }
    : { ...constraints, preferred_taints: { ...preferred, [taint]: (preferred[taint] ?? 0) + preferredWeight } };
}

/** Returns the ids of the prefill workers whose blocks cannot go to any decode worker that the hints allow. */
export function outOfReach(
  prefills: readonly { readonly id: string; readonly kvTransfer?: KvTransferPolicy | undefined }[],
  routing: RoutingHints,
  decodes: readonly RoutableWorker[],
): readonly string[] {
  const bound = prefills.filter(
    ({ kvTransfer }) => kvTransfer !== undefined && kvTransfer.preferredWeight === undefined,
  );
  if (bound.length === 0) return [];
  const pinnedId = pinnedIn({ role: 'decode' }, routing)?.workerId;
  const allowed = decodes.filter(
    (worker) => (pinnedId ?? worker.id) === worker.id && hasTaints(worker, routing.routing_constraints),
  );
  const reached = new Set(allowed.flatMap(({ taints }) => taints));
  return bound.filter(({ kvTransfer }) => kvTransfer && !reached.has(kvTransfer.taint)).map(({ id }) => id);
}
