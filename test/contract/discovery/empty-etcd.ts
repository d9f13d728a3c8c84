import { systemClock } from '../../../shared/clock/index.ts';
import { ASK, EtcdClient } from '../../../shared/discovery/etcd/etcd-client.ts';

const ALL = Buffer.of(0);

/** Removes every key of the cluster at `url`. */
export async function emptyEtcd(url: string): Promise<void> {
  const client = new EtcdClient({ endpoints: [url], clock: systemClock });
  await client.ask(ASK.delete, { key: ALL, rangeEnd: ALL }, new AbortController().signal);
  client.close();
}
