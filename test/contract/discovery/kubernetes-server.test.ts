import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createDiscovery } from '../../support/create-discovery.ts';
import { startTcpProxy, waitUntil } from '../../support/index.ts';
import type { ClusterPod } from '../../support/kube/cluster.ts';
import { hasKubeServer, KubeServer } from '../../support/kube/kube-server.ts';
import { Kubelet } from '../../support/kube/kubelet.ts';
import { readTlsFixture } from '../../support/tls-fixtures.ts';
import { describeDiscovery } from './discovery.contract.ts';
import { openedHandles } from './opened-handles.ts';
import { endpointAt, Witness } from './records.ts';

/** Pods that a test may take: two more than the largest one opens. */
const PODS = 8;

describe.runIf(hasKubeServer())('against a Kubernetes API server', { timeout: 60_000 }, () => {
  let server: KubeServer;
  beforeAll(async () => {
    server = await KubeServer.start();
  }, 180_000);
  afterAll(() => server.stop());

  const start = async () => {
    const namespace = await server.addNamespace();
    const token = await server.tokenIn(namespace);
    const pods = await Promise.all(Array.from({ length: PODS }, () => server.addPod(namespace)));
    const byName = new Map<string, ClusterPod>(pods.map((pod) => [pod.name, pod]));
    const kubelet = await Kubelet.start(async (name, isReady) => {
      const pod = byName.get(name);
      if (pod !== undefined) await server.setReady(namespace, pod, isReady);
    });
    const proxy = await startTcpProxy({ host: '127.0.0.1', port: server.port });
    const inPod = () => {
      const identity = pods.shift();
      if (identity === undefined) throw new Error(`a test uses more than ${PODS} pods`);
      const place = { server: `https://127.0.0.1:${proxy.port}`, ca: readTlsFixture('first.crt'), token, namespace };
      return {
        backend: 'kubernetes',
        ...place,
        identity,
        kubelet: { port: kubelet.port, pod: identity.name },
      } as const;
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
        await kubelet.close();
      },
    };
  };

  describeDiscovery('kubernetes, against a real API server', start, true);

  it('loses nothing when the server is replaced, and hears what changes afterwards', async () => {
    const harness = await start();
    const [reader, writer] = [await harness.open(), await harness.open()];
    const witness = new Witness();
    await reader.discovery.watch({ bucket: 'v1/instances', prefix: '' }, witness);
    await writer.discovery.put(endpointAt('ns/backend/generate/a'));
    await waitUntil(() => witness.present.size === 1);
    await server.restart();
    await writer.discovery.put(endpointAt('ns/backend/generate/b'));
    await waitUntil(() => witness.present.size === 2, { timeoutMs: 30_000 });
    expect(witness.events).toHaveLength(2);
    await harness.close();
  });
});
