import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Clock } from '../../clock/index.ts';
import { inClusterAccess, type KubeAccess } from './access.ts';

/** Folder that Kubernetes mounts into each container of a service account. */
const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';

/**
 * Returns where this process finds the API server: the kubeconfig that `KUBECONFIG` names, else the server of the
 * cluster that it runs in, else `~/.kube/config`.
 * @throws DiscoveryError `misconfigured` if there is none, or if it cannot be followed
 */
export async function findAccess(env: NodeJS.ProcessEnv, clock: Clock): Promise<KubeAccess> {
  const { KUBECONFIG: paths, KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port = '443' } = env;
  const named = paths?.split(':').filter(Boolean) ?? [];
  if (named.length === 0 && host) return inClusterAccess({ host, port, folder: SERVICE_ACCOUNT, clock });
  const { kubeconfigAccess } = await import('./kubeconfig.ts');
  return kubeconfigAccess(named.length > 0 ? named : [join(homedir(), '.kube', 'config')], clock);
}
