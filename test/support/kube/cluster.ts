import { FakeApiServer } from './api-server.ts';
import { Kubelet } from './kubelet.ts';

/** A pod that a process may run as. */
export interface ClusterPod {
  readonly name: string;
  readonly uid: string;
}

const LABELS = {
  'nvidia.com/dynamo-discovery-backend': 'kubernetes',
  'nvidia.com/dynamo-discovery-enabled': 'true',
} as const;
const NO_UID = '00000000-0000-4000-8000-000000000000';

/** A cluster with a fake API server, for one test. */
export class FakeCluster {
  readonly api: FakeApiServer;
  readonly kubelet: Kubelet;
  #pods = 0;

  private constructor(api: FakeApiServer, kubelet: Kubelet) {
    this.api = api;
    this.kubelet = kubelet;
  }

  static async start(): Promise<FakeCluster> {
    const api = await FakeApiServer.start();
    const kubelet = await Kubelet.start(async (pod, isReady) => setReady(api, pod, isReady));
    return new FakeCluster(api, kubelet);
  }

  /** Adds a pod that is not ready. */
  addPod(name = `pod-${++this.#pods}`): ClusterPod {
    const { metadata } = this.api.store('pods').set(name, { metadata: { labels: LABELS } });
    return { name, uid: metadata.uid };
  }

  /** Sets whether a pod is ready, in the slice of its service. */
  setReady(pod: string, isReady: boolean): void {
    setReady(this.api, pod, isReady);
  }

  async close(): Promise<void> {
    await this.kubelet.close();
    await this.api.close();
  }
}

/** Writes the slice of one pod, as the controller of slices does. */
function setReady(api: FakeApiServer, pod: string, isReady: boolean): void {
  const uid = api.store('pods').get(pod)?.metadata.uid ?? NO_UID;
  api.store('endpointslices').set(`workers-${pod}`, sliceOf([{ name: pod, uid, isReady }]));
}

/** Returns an EndpointSlice with these pods. */
export function sliceOf(pods: readonly { readonly name: string; readonly uid: string; readonly isReady: boolean }[]) {
  return {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    addressType: 'IPv4',
    metadata: { labels: LABELS },
    endpoints: pods.map(({ name, uid, isReady }, at) => ({
      addresses: [`10.0.${at >> 8}.${at & 255}`],
      conditions: { ready: isReady },
      targetRef: { kind: 'Pod', name, uid },
    })),
  };
}
