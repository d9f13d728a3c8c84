import type { Discovery, EndpointRecord, Watch } from '../../discovery/index.ts';
import type { ComponentScope } from '../feed/index.ts';
import { INDEX_QUERY_ENDPOINT, INDEX_RECORD_ENDPOINT } from './index-messages.ts';
import type { IndexerAddress } from './remote-index.ts';

/** Follows who serves the block index of a component. Rejects when discovery cannot be read, or with the signal's reason. */
export function watchIndexers(
  discovery: Discovery,
  { namespace, component }: ComponentScope,
  onChange: (indexers: readonly IndexerAddress[]) => void,
  signal?: AbortSignal,
): Promise<Watch> {
  const records = new Map<string, EndpointRecord>();
  const listener: Parameters<Discovery['watch']>[1] = {
    event(event) {
      if (event.kind === 'removed') records.delete(event.key);
      else if (event.record.type === 'Endpoint') records.set(event.key, event.record);
      onChange(indexersOf([...records.values()]));
    },
  };
  const prefix = `${namespace}/${component}`;
  return discovery.watch({ bucket: 'v1/instances', prefix }, listener, signal);
}

/** In the order of their ids, so that every router asks the same one first. */
function indexersOf(records: readonly EndpointRecord[]): readonly IndexerAddress[] {
  const transportOf = (wanted: string, instanceId: string) =>
    records.find(({ endpoint, instance_id: id }) => endpoint === wanted && id === instanceId)?.transport;
  return records
    .filter(({ endpoint }) => endpoint === INDEX_QUERY_ENDPOINT)
    .map(({ instance_id: instanceId, transport: query }) => {
      return { instanceId, query, record: transportOf(INDEX_RECORD_ENDPOINT, instanceId) };
    })
    .sort((a, b) => (a.instanceId < b.instanceId ? -1 : 1));
}
