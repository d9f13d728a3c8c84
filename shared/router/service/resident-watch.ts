import type { Discovery, EndpointRecord, Watch } from '../../discovery/index.ts';
import { CHOOSE_ENDPOINT, EXPLAIN_ENDPOINT, RELEASE_ENDPOINT, ROUTER_COMPONENT } from './messages.ts';
import type { ResidentAddress } from './resident-channel.ts';

/** Follows the resident routers of a namespace. Rejects when discovery cannot be read, or with the signal's reason. */
export async function watchResidents(
  discovery: Discovery,
  namespace: string,
  onChange: (residents: readonly ResidentAddress[]) => void,
  signal?: AbortSignal,
): Promise<Watch> {
  const records = new Map<string, EndpointRecord>();
  let isReading = true;
  const tell = (): void => {
    if (!isReading) onChange(residentsOf(records.values()));
  };
  const listener = {
    event(event: Parameters<Parameters<Discovery['watch']>[1]['event']>[0]) {
      if (event.kind === 'removed') records.delete(event.key);
      else if (event.record.type === 'Endpoint') records.set(event.key, event.record);
      tell();
    },
  };
  const prefix = `${namespace}/${ROUTER_COMPONENT}`;
  const watch = await discovery.watch({ bucket: 'v1/instances', prefix }, listener, signal);
  isReading = false;
  tell();
  return watch;
}

/** Those whose endpoints are all there, in the order of their ids. */
function residentsOf(records: Iterable<EndpointRecord>): readonly ResidentAddress[] {
  const byInstance = new Map<string, Partial<Record<string, EndpointRecord>>>();
  for (const record of records) {
    const { instance_id: id, endpoint } = record;
    byInstance.set(id, { ...byInstance.get(id), [endpoint]: record });
  }
  const residents: ResidentAddress[] = [];
  for (const [instanceId, endpoints] of [...byInstance].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const { [CHOOSE_ENDPOINT]: choose, [RELEASE_ENDPOINT]: release, [EXPLAIN_ENDPOINT]: explain } = endpoints;
    if (choose === undefined || release === undefined || explain === undefined) continue;
    residents.push({
      instanceId,
      choose: choose.transport,
      release: release.transport,
      explain: explain.transport,
    });
  }
  return residents;
}
