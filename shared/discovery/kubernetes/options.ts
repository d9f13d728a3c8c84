import type { DiscoveryBaseOptions } from '../options.ts';
import type { KubeAccess } from './access.ts';
import type { PodIdentity } from './identity.ts';

export interface KubernetesDiscoveryOptions extends DiscoveryBaseOptions {
  readonly access: KubeAccess;
  /** Kubernetes namespace whose processes find each other. */
  readonly namespace: string;
  /** Pod of this process. Absent = it only reads. */
  readonly identity?: PodIdentity | undefined;
  /**
   * Who is ready: `pod` = the pods in labelled EndpointSlices; `container` = the containers of labelled pods.
   * @default pod
   */
  readonly mode?: 'pod' | 'container';
  /**
   * Least time between two writes of the loads of this process, unless a worker begins or ends to drain, comes or goes.
   * @default 10_000, as often as a node renews its own lease
   */
  readonly loadsPeriodMs?: number;
  /** Whether the process lives on between its requests. @default true */
  readonly isLasting?: boolean;
}
