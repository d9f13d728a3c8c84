import { afterAll, beforeAll, describe } from 'vitest';
import { createDiscovery } from '../../support/create-discovery.ts';
import { type EtcdCluster, hasEtcd, startEtcd, startTcpProxy } from '../../support/index.ts';
import { describeDiscovery } from './discovery.contract.ts';
import { emptyEtcd } from './empty-etcd.ts';
import { openedHandles } from './opened-handles.ts';

describe.runIf(hasEtcd())('against an etcd server', () => {
  let cluster: EtcdCluster;
  beforeAll(async () => {
    cluster = await startEtcd();
  });
  afterAll(() => cluster.stop());

  describeDiscovery(
    'etcd',
    async () => {
      const [member] = cluster.members;
      if (member === undefined) throw new Error('the cluster has no member');
      await emptyEtcd(member.url);
      const proxy = await startTcpProxy({ host: '127.0.0.1', port: member.port });
      const options = { backend: 'etcd', endpoints: [`http://127.0.0.1:${proxy.port}`] } as const;
      const handles = openedHandles((each) => createDiscovery({ ...options, ...each }));
      return {
        open: handles.open,
        external: { options, beginOutage: async () => proxy.cut(), endOutage: async () => proxy.restore() },
        close: async () => {
          await handles.closeAll();
          await proxy.close();
        },
      };
    },
    true,
  );
});
