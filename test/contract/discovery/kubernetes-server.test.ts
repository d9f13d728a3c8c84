import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { KubernetesDiscovery } from '../../../shared/discovery/kubernetes/kubernetes-discovery.ts';
import { createDiscovery } from '../../support/create-discovery.ts';
import { startTcpProxy, waitUntil } from '../../support/index.ts';
import type { ClusterPod } from '../../support/kube/cluster.ts';
import { hasKubeServer, KubeServer } from '../../support/kube/kube-server.ts';
import { Kubelet } from '../../support/kube/kubelet.ts';
import { readTlsFixture } from '../../support/tls-fixtures.ts';
import { describeDiscovery } from './discovery.contract.ts';
import { describeKubeApi } from './kube-api.contract.ts';
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

  describeKubeApi('a real API server', async () => {
    const namespace = await server.addNamespace();
    const token = await server.tokenIn(namespace);
    const at = new URL(`https://127.0.0.1:${server.port}`);
    return {
      access: { server: at, ca: readTlsFixture('first.crt'), credentials: async () => ({ token }) },
      namespace,
      compact: () => server.forget(),
      close: async () => {},
    };
  });

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

  it('loses nothing when the server has forgotten what happened during an outage', async () => {
    const harness = await start();
    const [reader, writer] = [await harness.open(), await harness.open()];
    const witness = new Witness();
    await reader.discovery.watch({ bucket: 'v1/instances', prefix: '' }, witness);
    await writer.discovery.put(endpointAt('ns/backend/generate/a'));
    await writer.discovery.put(endpointAt('ns/backend/generate/b'));
    await waitUntil(() => witness.present.size === 2);
    await harness.external.beginOutage();
    await waitUntil(() => witness.outages.length === 1, { timeoutMs: 30_000 });
    await server.forget();
    await harness.external.endOutage();
    await waitUntil(() => witness.outages.length === 2, { timeoutMs: 30_000 });
    await writer.discovery.remove(endpointAt('ns/backend/generate/a'));
    await waitUntil(() => witness.present.size === 1, { timeoutMs: 30_000 });
    expect(witness.keys).toEqual(['ns/backend/generate/b']);
    expect(witness.outages.at(-1)).toBe('recovered');
    await harness.close();
  });

  it('takes another token once the server refuses the one that it has', async () => {
    const namespace = await server.addNamespace();
    const first = await server.tokenIn(namespace);
    let newest = first;
    let token = first;
    const shown = new Set<string>();
    const access = {
      server: new URL(`https://127.0.0.1:${server.port}`),
      ca: readTlsFixture('first.crt'),
      credentials: async (isRefused: boolean) => {
        if (isRefused) token = newest;
        shown.add(token);
        return { token };
      },
    };
    const discovery = new KubernetesDiscovery({ access, namespace });
    const instances = { bucket: 'v1/instances', prefix: '' } as const;
    expect(await discovery.list(instances)).toEqual([]);
    newest = await server.renewToken(namespace);
    // The server remembers for some seconds that a token was good.
    await waitUntil(
      async () => {
        expect(await discovery.list(instances)).toEqual([]);
        return shown.has(newest);
      },
      { timeoutMs: 40_000 },
    );
    expect([...shown]).toEqual([first, newest]);
    await discovery.close();
  });
});
