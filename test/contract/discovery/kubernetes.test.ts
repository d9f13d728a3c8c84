import { createDiscovery } from '../../support/create-discovery.ts';
import { startTcpProxy } from '../../support/index.ts';
import { FakeCluster } from '../../support/kube/cluster.ts';
import { describeDiscovery } from './discovery.contract.ts';
import { openedHandles } from './opened-handles.ts';

describeDiscovery(
  'kubernetes, against a fake API server',
  async () => {
    const cluster = await FakeCluster.start();
    const proxy = await startTcpProxy({ host: '127.0.0.1', port: cluster.api.port });
    /** Options of a process in a pod of its own. */
    const inPod = () => {
      const identity = cluster.addPod();
      const kubelet = { port: cluster.kubelet.port, pod: identity.name };
      const server = `http://127.0.0.1:${proxy.port}`;
      return { backend: 'kubernetes', server, namespace: 'default', identity, kubelet } as const;
    };
    const handles = openedHandles((each) => createDiscovery({ ...inPod(), ...each }));
    return {
      open: handles.open,
      external: {
        get options() {
          return inPod(); // each process that opens the store is another pod
        },
        beginOutage: async () => proxy.cut(),
        endOutage: async () => proxy.restore(),
        hasOtherJudge: true,
      },
      close: async () => {
        await handles.closeAll();
        await proxy.close();
        await cluster.close();
      },
    };
  },
  true,
);
