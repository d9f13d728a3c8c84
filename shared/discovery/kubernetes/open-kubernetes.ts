import { type OpenStore, withDefaults } from '../options.ts';
import { findAccess } from './find-access.ts';
import { identityOf, podFact } from './identity.ts';
import { KubernetesDiscovery } from './kubernetes-discovery.ts';

export const openKubernetes: OpenStore = async (settings, options) => {
  const { clock } = withDefaults(options);
  const access = await findAccess(process.env, clock);
  return new KubernetesDiscovery({
    ...options,
    access,
    namespace: podFact('pod_namespace', settings.podNamespace) ?? access.namespace ?? 'default',
    identity: identityOf(settings),
    mode: settings.kubeDiscoveryMode,
  });
};
