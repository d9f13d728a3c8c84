import type { DiscoveryRecord } from '../../discovery/index.ts';
import type { WorkerOptions } from '../options.ts';
import type { Registration } from '../registration.ts';

/**
 * Shows why the KV events of an engine do not arrive: in the worker's health, in its metrics, and on its endpoint in
 * discovery, from which frontends list it. The worker still serves. Engines log the reason themselves.
 */
export function showEventFaults(
  { engine, metrics, health }: Pick<WorkerOptions, 'engine' | 'metrics' | 'health'>,
  instanceId: string,
  registration: Pick<Registration, 'replace'>,
  records: readonly DiscoveryRecord[],
): void {
  const endpoint = records.find((record) => record.type === 'Endpoint');
  let shown = endpoint;
  engine.onKvEventFault?.((fault) => {
    metrics.kvEventsMissing(fault !== undefined);
    health?.setEventFault(fault, instanceId);
    if (endpoint === undefined || shown === undefined) return;
    const next = fault === undefined ? endpoint : { ...endpoint, kv_events: 'missing' as const };
    void registration.replace(shown, next); // logs its own failures
    shown = next;
  });
}
