import { asRecord, asU64, type UnknownRecord } from '../../records/index.ts';
import { withoutNulls } from './card.ts';

/** Topic of the sources whose metadata say which rank of which worker they are. */
const KV_EVENTS = 'kv-events';

/** Returns a scope of Dynamo as one of Stator; a scope of an unknown kind as it is. */
export function scopeOf(scope: UnknownRecord): UnknownRecord {
  switch (scope.kind) {
    case 'namespace':
      return { kind: 'namespace', namespace: scope.name };
    case 'endpoint':
      return { kind: 'endpoint', ...pathOf(scope.endpoint) };
    default:
      return scope; // a component has the same fields
  }
}

/**
 * Returns a source of events of Dynamo as one of Stator. Other topics than `kv-events` have metadata of their own,
 * which are left out.
 *
 * @param record whose long numbers are bigints
 * @param instance_id publisher, in hex
 * @param endpointOf reads the endpoint that answers recovery queries
 */
export function sourceOf(
  record: UnknownRecord,
  instance_id: string,
  endpointOf: (record: UnknownRecord, id: unknown) => unknown,
): UnknownRecord {
  const { type, topic } = record;
  const common = { type, scope: scopeOf(asRecord(record.scope) ?? {}), topic, instance_id, wire: 'dynamo' };
  const metadata = asRecord(record.metadata);
  const worker = asRecord(metadata?.worker);
  if (topic !== KV_EVENTS || metadata === undefined || worker === undefined) return common;
  const target = asRecord(metadata.recovery_target);
  return withoutNulls({
    ...common,
    worker_id: hexOf(worker.worker_id),
    dp_rank: worker.dp_rank ?? 0,
    kv_state_endpoint: pathOf(metadata.kv_state_endpoint),
    recovery_target: target === undefined ? undefined : endpointOf(target, target.instance_id),
  });
}

/** Returns an exact u64 as hex text. Another value gives text that no record takes as an id. */
export function hexOf(id: unknown): string {
  return asU64(id)?.toString(16) ?? '';
}

function pathOf(endpoint: unknown): UnknownRecord {
  const { namespace, component, name } = asRecord(endpoint) ?? {};
  return { namespace, component, endpoint: name };
}
