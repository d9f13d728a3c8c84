import type { RoutingConstraints, RoutingHints } from '../../protocol/generation/index.ts';
import type { RoutableWorker } from '../types.ts';
import { pinnedWorkerId } from './eligible.ts';

/** Between which workers the blocks of a prompt should travel: a prefill worker's demand on the decode worker. */
export interface KvTransferPolicy {
  /** Taint of the decode workers that are near. */
  readonly taint: string;
  /** Preference for them, 0 to 1; undefined = no other will do. */
  readonly preferredWeight: number | undefined;
}

/** What a card says about where its worker stands. Names as on the wire. */
export interface TopologyFields {
  readonly topology_domains?: Readonly<Record<string, string>>;
  readonly kv_transfer_domain?: string;
  readonly kv_transfer_enforcement?: 'required' | 'preferred';
  readonly kv_transfer_preferred_weight?: number;
}

/** The taint under which a worker's place in a domain is known to every router. */
export function topologyTaint(domain: string, value: string): string {
  return `dynamo.topology/${domain}=${value}`;
}

/**
 * What is wrong with the fields, in words for the operator; undefined = nothing. Names and values of domains are neither
 * empty nor padded, and hold no `=`; the transfer domain is one of them; a weight goes with `preferred` and with nothing else.
 */
export function topologyFault(fields: TopologyFields): string | undefined {
  const { topology_domains: domains = {}, kv_transfer_domain: domain, kv_transfer_preferred_weight: weight } = fields;
  for (const text of Object.entries(domains).flat()) {
    if (text === '' || text.trim() !== text || text.includes('=')) {
      return `${JSON.stringify(text)} is no name or value of a topology domain: not empty, no spaces around it, no "="`;
    }
  }
  if (domain === undefined) return undefined;
  if (domains[domain] === undefined) return `the transfer domain ${domain} is not among the topology domains`;
  const isPreferred = fields.kv_transfer_enforcement === 'preferred';
  if (isPreferred && !(weight !== undefined && weight >= 0 && weight <= 1)) return 'preferred needs a weight of 0 to 1';
  return isPreferred || weight === undefined ? undefined : 'a weight goes with preferred only';
}

/** The policy that a card states; undefined = blocks may travel anywhere, or the card is in error. */
export function kvTransferPolicy(fields: TopologyFields): KvTransferPolicy | undefined {
  const { topology_domains: domains = {}, kv_transfer_domain: domain } = fields;
  const value = domain === undefined ? undefined : domains[domain];
  if (domain === undefined || value === undefined || topologyFault(fields) !== undefined) return undefined;
  return { taint: topologyTaint(domain, value), preferredWeight: fields.kv_transfer_preferred_weight };
}

/** The client's constraints with the policy of the prefill worker added. */
export function withTransferPolicy(
  constraints: RoutingConstraints | undefined,
  { taint, preferredWeight }: KvTransferPolicy,
): RoutingConstraints {
  const { required_taints: required = [], preferred_taints: preferred = {} } = constraints ?? {};
  return preferredWeight === undefined
    ? { ...constraints, required_taints: [...required, taint] }
    : { ...constraints, preferred_taints: { ...preferred, [taint]: (preferred[taint] ?? 0) + preferredWeight } };
}

/** Ids of the prefill workers whose blocks may go to none of the decode workers that the hints allow. */
export function outOfReach(
  prefills: readonly { readonly id: string; readonly kvTransfer?: KvTransferPolicy | undefined }[],
  routing: RoutingHints,
  decodes: readonly RoutableWorker[],
): readonly string[] {
  const bound = prefills.filter(
    ({ kvTransfer }) => kvTransfer !== undefined && kvTransfer.preferredWeight === undefined,
  );
  if (bound.length === 0) return [];
  const pinned = pinnedWorkerId(routing);
  const required = routing.routing_constraints?.required_taints ?? [];
  const allowed = decodes.filter(
    ({ id, taints }) => (pinned === undefined || id === pinned) && required.every((taint) => taints.includes(taint)),
  );
  const reached = new Set(allowed.flatMap(({ taints }) => taints));
  return bound.filter(({ kvTransfer }) => kvTransfer && !reached.has(kvTransfer.taint)).map(({ id }) => id);
}
