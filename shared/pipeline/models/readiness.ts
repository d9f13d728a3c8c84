import type { ModelRecord, WorkerType } from '../../discovery/index.ts';
import type { ModelReadiness, NamespaceReadiness } from '../types.ts';

/** Worker types that take client requests; the others only help them. */
const SERVING: ReadonlySet<WorkerType> = new Set(['aggregated', 'decode']);

export function isServing(record: ModelRecord): boolean {
  return SERVING.has(record.card.worker_type);
}

/**
 * Whether a model can be served, given the cards whose endpoints are live: in one namespace at
 * least one worker serves, and every worker type present there finds the peers that it needs.
 * @param decodesAlone decode workers need no peers (`--decode-fallback`)
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

/** What the alternative that lacks least still lacks; nothing when one alternative is met or none is asked for. */
function closestMiss(needs: readonly (readonly string[])[], live: ReadonlySet<string>): readonly string[] {
  let closest: readonly string[] | undefined;
  for (const alternative of needs) {
    const missing = alternative.filter((type) => !live.has(type));
    if (closest === undefined || missing.length < closest.length) closest = missing;
  }
  return closest ?? [];
}

/** Where requests are prefilled, as far as discovery says. */
export type PrefillState = 'pending' | 'active' | 'unavailable';

/**
 * | State | a prefill worker is there | none is |
 * |---|---|---|
 * | pending | active | pending |
 * | active | active | unavailable |
 * | unavailable | active | unavailable |
 */
export function nextPrefillState(state: PrefillState, hasWorkers: boolean): PrefillState {
  if (hasWorkers) return 'active';
  return state === 'pending' ? 'pending' : 'unavailable';
}
