import { createHash } from 'node:crypto';
import type { CheckedFile, EndpointRecord, ModelCard, ModelRecord, WorkerType } from '../../discovery/index.ts';
import type { Transport } from '../../planes/index.ts';
import type { PoolRole, RoutableWorker, WorkerPool } from '../../router/index.ts';
import { type KvTransferPolicy, kvTransferPolicy } from '../../scheduler/index.ts';
import type { ModelReadiness, NamespaceReadiness, ServedModel } from '../pipeline.ts';
import { type ChatProcessor, passesChats } from './chat-processor.ts';

/** A live endpoint instance that serves a model. */
export interface Worker extends RoutableWorker {
  readonly transport: Transport;
  readonly endpoint: string;
  /** Component, or endpoint of a worker of Dynamo, whose topics carry the worker's events and load. */
  readonly scope: { readonly namespace: string; readonly component: string; readonly endpoint?: string };
  /** Whether it publishes which blocks its cache holds. */
  readonly publishesKvEvents: boolean;
  /** Whether it answers a router that has missed such events. */
  readonly hasLocalIndexer: boolean;
  /** Address at which decode workers reach the engine of a prefill worker, if it has one. */
  readonly rendezvous?: { readonly host: string; readonly port: number } | undefined;
  /** Rules for which decode workers may or should fetch the blocks of a prefill worker. @default any */
  readonly kvTransfer?: KvTransferPolicy | undefined;
  /** Address of the files of its card: `host:port/path`. @default no address */
  readonly filesAt?: string | undefined;
  /** Whether it takes media that an encode worker has encoded. @default false */
  readonly routesToEncoder?: boolean | undefined;
}

/** A pool and its workers. */
export interface WorkersOfPool {
  readonly pool: WorkerPool;
  /** Workers in key order. */
  readonly workers: readonly Worker[];
}

/** Prefill workers of a model whose decode workers do not compute their own prompts: at least one. */
export type PrefillPool = WorkersOfPool;

/** A model as the pipeline needs it: the fields that clients see, and its workers. */
export interface RoutableModel extends ServedModel {
  /** Checksum of the card's identity. Workers with another checksum are another worker set. */
  readonly mdcSum: string;
  /**
   * Namespace of the card, kept after the last worker has left. The model may have workers in other namespaces, too.
   */
  readonly namespace: string;
  /**
   * Whether its name is all that is known of it: no worker has served it yet, and its card is a placeholder.
   * @default false
   */
  readonly isPlanned?: boolean | undefined;
  /** Worker set as the router names it. */
  readonly pool: WorkerPool;
  /** Workers that take requests now, in key order; empty while the model is not ready. */
  readonly workers: readonly Worker[];
  /**
   * Decode workers whose prefill workers have all left. They end their running requests and take no new ones.
   * @default none
   */
  readonly standing?: readonly Worker[];
  /** Workers that compute the prompts of these workers; undefined = they compute prompts themselves. */
  readonly prefill?: PrefillPool | undefined;
  /** Workers that encode the media of these workers. @default none */
  readonly encoders?: readonly Worker[];
  /**
   * Further worker sets that take requests now, each with a card of its own, in the order of their first cards; as
   * while a fleet is replaced. `setsOf` makes models of them.
   * @default none
   */
  readonly otherSets?: readonly WorkerSet[] | undefined;
}

/** Workers of a model that make prompts and read answers in the same way. */
export type WorkerSet = Omit<RoutableModel, 'createdSecs' | 'otherSets'>;

const NO_WORKERS: readonly Worker[] = [];

/** Settings of a process that apply to every model. */
export interface ModelTerms {
  /** Block size of every model's KV cache, whatever the cards say. */
  readonly kvCacheBlockSizeTokens?: number | undefined;
  /** Whether decode workers serve without prefill workers (`--decode-fallback`). @default false */
  readonly decodesAlone?: boolean | undefined;
  /** Engine to which chats are left (`--dyn-chat-processor`). @default none: chats are rendered and parsed here */
  readonly chatProcessor?: ChatProcessor | undefined;
}

/** A card and the endpoint instance that serves it, while the instance lives. */
export interface JoinedCard {
  readonly record: ModelRecord;
  readonly endpoint: EndpointRecord | undefined;
  /** Card of the base model at the same instance, for an adapter. @default no adapter, or the base is unknown */
  readonly base?: ModelRecord | undefined;
}

/**
 * Joins the cards of a name to a model. Workers with different cards cannot share one prompt format, so each kind of
 * card is a worker set; the first ready one in key order shows its card to clients.
 */
export function modelOf(
  name: string,
  cards: readonly JoinedCard[],
  terms: ModelTerms,
): Omit<RoutableModel, 'createdSecs'> {
  const live = cards.filter(({ endpoint }) => endpoint !== undefined);
  const readiness = readinessOf(
    live.map(({ record }) => record),
    terms.decodesAlone ?? false,
  );
  const isReady = ({ record }: JoinedCard): boolean => readiness.namespaces[record.namespace]?.isReady === true;
  const ready = live.filter(isReady);
  const serving = ready.filter(({ record }) => isServing(record));
  const first = serving[0] ?? cards.find(({ record }) => isServing(record)) ?? cards[0];
  if (first === undefined) throw new Error(`model ${name} has no card`);
  const leaders = new Map<string, JoinedCard>();
  for (const joined of [first, ...serving]) {
    const kind = `${roleOf(joined.record.card)} ${cardChecksum(joined.record.card)}`;
    if (!leaders.has(kind)) leaders.set(kind, joined);
  }
  const fleet = { name, live, ready, serving, readiness, terms };
  const [own, ...otherSets] = [...leaders.values()].map((leader) => setOf(leader, fleet)) as [
    WorkerSet,
    ...WorkerSet[],
  ];
  return otherSets.length === 0 ? own : { ...own, otherSets };
}

/** Cards of one name: those of live workers, those in namespaces that are ready, and those of them that serve. */
interface NamedFleet {
  readonly name: string;
  readonly live: readonly JoinedCard[];
  readonly ready: readonly JoinedCard[];
  readonly serving: readonly JoinedCard[];
  readonly readiness: ModelReadiness;
  readonly terms: ModelTerms;
}

/** Returns the workers whose cards are like the leader's, with their helpers in the same namespaces. */
function setOf(leader: JoinedCard, { name, live, ready, serving, readiness, terms }: NamedFleet): WorkerSet {
  const { kvCacheBlockSizeTokens: blockSizeTokens, chatProcessor } = terms;
  const { card, namespace } = leader.record;
  const [mdcSum, role, baseSum] = [cardChecksum(card), roleOf(card), baseSumOf(leader)];
  const isAlike = (joined: JoinedCard): boolean =>
    roleOf(joined.record.card) === role && cardChecksum(joined.record.card) === mdcSum && baseSumOf(joined) === baseSum;
  const members = serving.filter(isAlike);
  const workers = members.flatMap(workerOf);
  const pool: WorkerPool = {
    key: mdcSum,
    model: name,
    role,
    blockSizeTokens: card.model_input === 'Tokens' ? (blockSizeTokens ?? card.kv_cache_block_size) : 0,
    ...(isEagle(card) ? { isEagle: true } : {}),
  };
  const base = baseSum && { ...pool, key: baseSum, model: leader.base?.card.display_name };
  const namespaces = new Set(members.map(({ record }) => record.namespace));
  const beside = ready.filter(({ record }) => namespaces.has(record.namespace));
  const helpers = beside.filter(({ record }) => roleOf(record.card) === 'prefill' && computesFor(record.card, card));
  const isStanding = role === 'decode' && workers.length === 0;
  return {
    name,
    primaryName: name,
    card,
    contextLength: card.runtime_config.context_length ?? card.architectural_max_context_length ?? 0,
    ...(leader.base === undefined ? {} : { baseModel: leader.base.card.display_name }),
    readiness,
    ...(passesChats(card, chatProcessor) ? { passesChats: true } : {}),
    mdcSum,
    namespace,
    pool: base ? { ...pool, base } : pool,
    workers,
    standing: isStanding ? live.filter(isAlike).flatMap(workerOf) : NO_WORKERS,
    prefill: prefillPoolOf(pool, helpers),
    encoders: beside.filter(({ record }) => record.card.worker_type === 'encode').flatMap(workerOf),
  };
}

/** Returns the pool of prefill workers beside `pool`. It has its own key, because pools come and go separately. */
function prefillPoolOf(pool: WorkerPool, helpers: readonly JoinedCard[]): PrefillPool | undefined {
  const workers = helpers.flatMap(workerOf);
  if (pool.role !== 'decode' || workers.length === 0) return undefined;
  const speculates = helpers.some(({ record }) => isEagle(record.card));
  return { pool: { ...pool, key: `${pool.key}.prefill`, role: 'prefill', isEagle: speculates }, workers };
}

/**
 * Returns whether a decode worker can use blocks that a prefill worker computes. The parts of both cards that prompts
 * are made of must be equal. Only the decode worker's card says how to read answers.
 */
function computesFor(prefill: ModelCard, decode: ModelCard): boolean {
  if (prefill.kv_cache_block_size !== decode.kv_cache_block_size) return false;
  if (prefill.model_input !== decode.model_input) return false;
  const [ours, theirs] = [Object.entries(prefill.files), decode.files];
  return ours.every(([role, file]) => theirs[role] === undefined || sumOf(theirs[role]) === sumOf(file));
}

/** Names the worker set of the base model of an adapter; undefined for other models. */
function baseSumOf({ base }: JoinedCard): string | undefined {
  return base && cardChecksum(base.card);
}

function roleOf({ worker_type: type }: ModelCard): PoolRole {
  return type === 'prefill' || type === 'decode' ? type : 'aggregated';
}

function workerOf({ record, endpoint }: JoinedCard): Worker[] {
  if (endpoint === undefined) return [];
  const { runtime_config: runtime } = record.card;
  return [
    {
      id: record.instance_id,
      transport: endpoint.transport,
      endpoint: `${record.namespace}.${record.component}.${record.endpoint}`,
      scope: scopeOf(record),
      publishesKvEvents: runtime.kv_event_publishing_enabled !== false,
      hasLocalIndexer: runtime.enable_local_indexer !== false,
      totalKvBlocks: runtime.total_kv_blocks,
      maxNumBatchedTokens: runtime.max_num_batched_tokens,
      maxNumSeqs: runtime.max_num_seqs,
      dataParallelStartRank: runtime.data_parallel_start_rank ?? 0,
      dataParallelSize: runtime.data_parallel_size ?? 1,
      deviceType: endpoint.device_type,
      taints: runtime.taints ?? [],
      stableId: runtime.stable_routing_id,
      rendezvous: rendezvousOf(runtime, endpoint),
      kvTransfer: kvTransferPolicy(runtime),
      routesToEncoder: runtime.route_to_encoder,
      filesAt: record.files_at,
    },
  ];
}

/** Returns the scope in which a worker publishes events. */
function scopeOf({ namespace, component, endpoint, wire }: ModelRecord): Worker['scope'] {
  return wire === 'dynamo' ? { namespace, component, endpoint } : { namespace, component };
}

/**
 * Returns the address at which to reach an engine. If the engine does not know its machine's address, it is that of the
 * worker.
 */
function rendezvousOf({ disaggregated_endpoint: at }: ModelCard['runtime_config'], { transport }: EndpointRecord) {
  if (at?.bootstrap_port === undefined) return undefined;
  const address = transport.tcp ?? transport.dynamo_tcp;
  const host = at.bootstrap_host ?? (address === undefined ? undefined : hostOf(address));
  return host === undefined ? undefined : { host, port: at.bootstrap_port };
}

/** Returns the host of `host:port/path`; an IPv6 address loses its brackets. */
function hostOf(address: string): string {
  const hostPort = address.split('/', 1)[0] as string; // a split has at least one part
  return hostPort.slice(0, hostPort.lastIndexOf(':')).replace(/^\[(.*)\]$/, '$1');
}

/**
 * Hashes the parts of a card that decide how to make prompts and read answers. Workers with the same hash are one
 * worker set.
 */
function cardChecksum(card: ModelCard): string {
  const known = CHECKSUMS.get(card);
  if (known !== undefined) return known;
  const files = Object.entries(card.files)
    .map(([role, file]) => `${role}=${sumOf(file)}`)
    .sort();
  const identity = [
    card.display_name,
    card.model_input,
    card.kv_cache_block_size,
    card.lora?.name,
    files,
    parsersOf(card),
    ...(card.runtime_config.media_chats === true ? ['media'] : []),
    ...(isEagle(card) ? ['eagle'] : []),
  ];
  const sum = createHash('sha256').update(JSON.stringify(identity)).digest('hex').slice(0, 32);
  CHECKSUMS.set(card, sum);
  return sum;
}

/** Returns whether the workers of a card name their blocks by one token more than a block has. */
function isEagle({ runtime_config: { enable_eagle } }: ModelCard): boolean {
  return enable_eagle === true;
}

/** Returns the checksum that workers of both products give the same bytes, if the card has it. */
function sumOf({ checksum, blake3 = checksum }: CheckedFile): string {
  return blake3;
}

const CHECKSUMS = new WeakMap<ModelCard, string>();

function parsersOf({ runtime_config: runtime }: ModelCard): readonly (string | undefined)[] {
  const { tool_call_parser, reasoning_parser, default_thinking_mode, tokenizer_backend } = runtime;
  return [tool_call_parser, reasoning_parser, default_thinking_mode, tokenizer_backend];
}

/** Worker types that take client requests. The other types only help them. */
const SERVING: ReadonlySet<WorkerType> = new Set(['aggregated', 'decode']);

function isServing(record: ModelRecord): boolean {
  return SERVING.has(record.card.worker_type);
}

/**
 * Returns whether a model can be served, given the cards whose endpoints are live. In at least one namespace, a worker
 * must serve it, and every worker type there must find the peers that it needs.
 * @param decodesAlone whether decode workers need no peers (`--decode-fallback`)
 */
export function readinessOf(live: readonly ModelRecord[], decodesAlone = false): ModelReadiness {
  const byNamespace = new Map<string, ModelRecord[]>();
  for (const record of live) {
    const present = byNamespace.get(record.namespace);
    if (present === undefined) byNamespace.set(record.namespace, [record]);
    else present.push(record);
  }
  const namespaces: Record<string, NamespaceReadiness> = {};
  for (const [name, present] of [...byNamespace].sort(([a], [b]) => (a < b ? -1 : 1))) {
    namespaces[name] = namespaceReadiness(present, decodesAlone);
  }
  const isReady = Object.values(namespaces).some((namespace) => namespace.isReady);
  const reason = isReady ? undefined : 'no namespace has all required worker types live';
  return { isReady, reason, namespaces };
}

function namespaceReadiness(present: readonly ModelRecord[], decodesAlone: boolean): NamespaceReadiness {
  const workerTypes: Record<string, { workers: number; needs: readonly (readonly string[])[] }> = {};
  for (const { card } of present) {
    const entry = workerTypes[card.worker_type];
    const needs = decodesAlone && card.worker_type === 'decode' ? [] : card.needs;
    if (entry === undefined) workerTypes[card.worker_type] = { workers: 1, needs };
    else entry.workers++;
  }
  const live = new Set(Object.keys(workerTypes));
  const missing = new Set<string>();
  for (const { needs } of Object.values(workerTypes)) {
    for (const type of closestMiss(needs, live)) missing.add(type);
  }
  const serves = present.some(isServing);
  if (missing.size === 0 && serves) return { isReady: true, reason: undefined, workerTypes, missingWorkerTypes: [] };
  const missingWorkerTypes = [...missing].sort();
  const reason = missing.size > 0 ? `missing worker types: ${missingWorkerTypes.join(', ')}` : 'no serving worker';
  return { isReady: false, reason, workerTypes, missingWorkerTypes };
}

/**
 * Returns the missing peers of the alternative that lacks the fewest; nothing if one alternative is met or there are
 * none.
 */
function closestMiss(needs: readonly (readonly string[])[], live: ReadonlySet<string>): readonly string[] {
  let closest: readonly string[] | undefined;
  for (const alternative of needs) {
    const missing = alternative.filter((type) => !live.has(type));
    if (closest === undefined || missing.length < closest.length) closest = missing;
  }
  return closest ?? [];
}

/** State of a model's prefill, as far as discovery says. */
export type PrefillState = 'pending' | 'active' | 'unavailable';

/**
 * Returns the next state of a model's prefill.
 *
 * | State | a prefill worker is there | no prefill worker is there |
 * |---|---|---|
 * | pending | active | pending |
 * | active | active | unavailable |
 * | unavailable | active | unavailable |
 */
export function nextPrefillState(state: PrefillState, hasWorkers: boolean): PrefillState {
  if (hasWorkers) return 'active';
  return state === 'pending' ? 'pending' : 'unavailable';
}
