import type { Clock } from '../../clock/index.ts';
import { findAccess, type KubeAccess, KubeFailure, quietSdkNotice } from '../../discovery/index.ts';
import { loadCode, reasonOf } from '../../errors/index.ts';
import type { ClusterPlace } from './cluster-fleet.ts';

type EksPlace = Extract<ClusterPlace, { readonly kind: 'eks' }>;

/**
 * Returns how a planner enters the cluster of a fleet: with the credentials of AWS, with the service account of its
 * pod, or with its kubeconfig.
 * @throws DiscoveryError if this process has neither a service account nor a kubeconfig
 */
export async function accessTo(place: ClusterPlace, env: NodeJS.ProcessEnv, clock: Clock): Promise<KubeAccess> {
  return place.kind === 'eks' ? await eksAccess(place, clock) : await findAccess(env, clock);
}

/** The client finds credentials in all the places where they may be. */
async function eksAccess(
  { name, region, endpoint, certificateAuthority }: EksPlace,
  clock: Clock,
): Promise<KubeAccess> {
  quietSdkNotice();
  const { AutoScalingClient, SignatureV4 } = await loadCode('EKS', () => import('./eks-parts.ts'));
  const { EksTokens } = await import('./eks-token.ts');
  const { credentials, sha256 } = new AutoScalingClient({ region }).config;
  const tokens = new EksTokens({ cluster: name, region, credentials, sha256, signer: SignatureV4, clock });
  return {
    server: new URL(endpoint),
    ca: Buffer.from(certificateAuthority, 'base64'),
    credentials: async (refused) => {
      try {
        return { token: await tokens.token(refused) };
      } catch (thrown) {
        const hint = 'Check the role of this process, or AWS_PROFILE';
        const what = `no token for the EKS cluster ${name}: ${reasonOf(thrown)}. ${hint}`;
        throw new KubeFailure(401, what, thrown);
      }
    },
  };
}
