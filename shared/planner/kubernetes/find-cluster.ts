import type { Clock } from '../../clock/index.ts';
import { ConfigError } from '../../config/index.ts';
import { findAccess, type KubeAccess, KubeFailure, quietSdkNotice } from '../../discovery/index.ts';
import { loadCode, reasonOf } from '../../errors/index.ts';
import type { ClusterPlace } from './cluster-fleet.ts';
import type { DescribeOptions, EksAddress } from './eks-cluster.ts';

type EksPlace = Extract<ClusterPlace, { readonly kind: 'eks' }>;

/**
 * Returns how a planner enters the cluster of a fleet: with the credentials of AWS, with the service account of its
 * pod, or with its kubeconfig.
 * @throws DiscoveryError if this process has neither a service account nor a kubeconfig
 * @throws KubeFailure if EKS does not say where its cluster is
 * @throws ConfigError if nothing names the region of the cluster
 */
export async function accessTo(place: ClusterPlace, env: NodeJS.ProcessEnv, clock: Clock): Promise<KubeAccess> {
  return place.kind === 'eks' ? await eksAccess(place, env, clock) : await findAccess(env, clock);
}

/** The client finds credentials in all the places where they may be. */
async function eksAccess(place: EksPlace, env: NodeJS.ProcessEnv, clock: Clock): Promise<KubeAccess> {
  const { name, region = env.AWS_REGION } = place;
  if (region === undefined) {
    throw new ConfigError([`--planner-fleets: the cluster ${name} has no region, and AWS_REGION is not set`]);
  }
  quietSdkNotice();
  const { AutoScalingClient, SignatureV4 } = await loadCode('EKS', () => import('./eks-parts.ts'));
  const { EksTokens } = await import('./eks-token.ts');
  const { credentials, sha256 } = new AutoScalingClient({ region }).config;
  const common = { cluster: name, region, credentials, sha256, signer: SignatureV4, clock };
  const { endpoint, certificateAuthority } = await addressOf(place, { ...common, env });
  const tokens = new EksTokens(common);
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

/** Returns the address that the fleet names, else the one that EKS names. */
async function addressOf({ endpoint, certificateAuthority }: EksPlace, options: DescribeOptions): Promise<EksAddress> {
  if (endpoint !== undefined && certificateAuthority !== undefined) return { endpoint, certificateAuthority };
  const { describeCluster } = await import('./eks-cluster.ts');
  return await describeCluster(options);
}
