import { systemClock } from '../../shared/clock/index.ts';
import { DynamoDbDiscovery } from '../../shared/discovery/dynamodb/dynamodb-discovery.ts';
import type { DynamoDbDiscoveryOptions } from '../../shared/discovery/dynamodb/options.ts';
import { EtcdDiscovery } from '../../shared/discovery/etcd/etcd-discovery.ts';
import type { EtcdDiscoveryOptions } from '../../shared/discovery/etcd/options.ts';
import { FileDiscovery, type FileDiscoveryOptions } from '../../shared/discovery/file/file-discovery.ts';
import type { Discovery, TableOptions } from '../../shared/discovery/index.ts';
import { KubernetesDiscovery } from '../../shared/discovery/kubernetes/kubernetes-discovery.ts';
import type { KubernetesDiscoveryOptions } from '../../shared/discovery/kubernetes/options.ts';
import { type KubeletPlace, reportTo } from './kube/kubelet.ts';

/** Options of a process in a cluster, as texts. */
export interface KubernetesProcessOptions extends Omit<KubernetesDiscoveryOptions, 'access'> {
  /** URL of the API server. */
  readonly server: string;
  readonly token?: string;
  /** Authority that signed the server's certificate, PEM. */
  readonly ca?: string;
  /** Kubelet of its pod. */
  readonly kubelet: KubeletPlace;
}

/** Options of a store that several processes share, by its name. They include options without a setting. */
export type SharedStoreOptions =
  | ({ readonly backend: 'file' } & FileDiscoveryOptions)
  | ({ readonly backend: 'etcd' } & EtcdDiscoveryOptions)
  | ({ readonly backend: 'kubernetes' } & KubernetesProcessOptions)
  | ({ readonly backend: 'dynamodb' } & DynamoDbDiscoveryOptions & TableOptions);

export async function createDiscovery(options: SharedStoreOptions): Promise<Discovery> {
  switch (options.backend) {
    case 'file':
      return new FileDiscovery(options);
    case 'etcd':
      return new EtcdDiscovery(options);
    case 'kubernetes':
      return createInCluster(options);
    case 'dynamodb':
      return DynamoDbDiscovery.open(options);
  }
}

async function createInCluster(options: KubernetesProcessOptions): Promise<Discovery> {
  const { server, token, ca, kubelet, clock = systemClock, ttlMs = 10_000 } = options;
  const access = { server: new URL(server), ca, credentials: async () => ({ token }) };
  const discovery = new KubernetesDiscovery({ ...options, access });
  const life = await reportTo(kubelet, ttlMs, clock);
  const close = discovery.close.bind(discovery);
  discovery.close = async () => {
    await close();
    life.close();
  };
  return discovery;
}
