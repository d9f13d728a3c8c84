import type { EventScope } from '../../planes/index.ts';
import { exactText, u64OfHex } from '../../records/index.ts';
import type {
  DiscoveryRecord,
  EndpointRecord,
  EventChannelRecord,
  EventSourceRecord,
  ModelRecord,
} from '../records.ts';
import { toDynamoCard } from './write-card.ts';

const TRANSPORT_PREFIX = 'dynamo_';

/**
 * Returns the text of a record as a process of Dynamo writes and reads it: ids are numbers with all of their digits.
 * The record has the wire `dynamo`, and goes under the same key in Dynamo's part of the store.
 */
export function toDynamo(record: DiscoveryRecord): string {
  return exactText(written(record));
}

function written(record: DiscoveryRecord): unknown {
  switch (record.type) {
    case 'Endpoint':
      return endpointOf(record);
    case 'Model':
      return modelOf(record);
    case 'EventChannel':
      return channelOf(record);
    case 'EventSource':
      return sourceOf(record);
  }
}

function endpointOf(record: EndpointRecord): Readonly<Record<string, unknown>> {
  const { type, namespace, component, endpoint, instance_id, transport, device_type } = record;
  const { dynamo_codec: request_plane_codec, ...places } = transport;
  const addresses = Object.entries(places).map(([kind, at]) => [kind.replace(TRANSPORT_PREFIX, ''), at]);
  return {
    type,
    namespace,
    component,
    endpoint,
    instance_id: u64OfHex(instance_id),
    transport: Object.fromEntries(addresses),
    device_type,
    request_plane_codec,
  };
}

function modelOf({ type, namespace, component, endpoint, instance_id, card, model_suffix }: ModelRecord): unknown {
  const path = { namespace, component, endpoint, instance_id: u64OfHex(instance_id) };
  return { type, ...path, card_json: toDynamoCard(card), model_suffix };
}

function channelOf({ type, scope, topic, instance_id, transport }: EventChannelRecord): unknown {
  return { type, scope: scopeOf(scope), topic, instance_id: u64OfHex(instance_id), transport };
}

function sourceOf(record: EventSourceRecord): unknown {
  const { type, scope, topic, instance_id, worker_id, dp_rank = 0, kv_state_endpoint: state, recovery_target } = record;
  const publisher_id = u64OfHex(instance_id);
  const common = { type, scope: scopeOf(scope), topic, publisher_id };
  if (worker_id === undefined || state === undefined) return { ...common, metadata: {} };
  const target = recovery_target === undefined ? undefined : withoutType(endpointOf(recovery_target));
  return {
    ...common,
    metadata: {
      kv_state_endpoint: { namespace: state.namespace, component: state.component, name: state.endpoint },
      worker: { worker_id: u64OfHex(worker_id), dp_rank },
      publisher_id,
      recovery_target: target,
    },
  };
}

function withoutType({ type: _, ...rest }: Readonly<Record<string, unknown>>): unknown {
  return rest;
}

function scopeOf(scope: EventScope): unknown {
  switch (scope.kind) {
    case 'namespace':
      return { kind: scope.kind, name: scope.namespace };
    case 'component':
      return scope;
    case 'endpoint': {
      const { kind, namespace, component, endpoint: name } = scope;
      return { kind, endpoint: { namespace, component, name } };
    }
  }
}
