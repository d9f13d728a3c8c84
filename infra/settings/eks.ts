import * as z from 'zod';
import { Arn } from './names.ts';

/** A cluster of the user's. */
const Cluster = z.strictObject({
  /** Name, in the region of the deployment. */
  name: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/, 'must be the name of a cluster of EKS'),
  /** Security group that EKS has made for it: `clusterSecurityGroupId` of `aws eks describe-cluster`. */
  securityGroupId: z
    .string()
    .regex(/^sg-[0-9a-f]{8,17}$/, 'must be the id of a security group, as sg-0123456789abcdef0'),
  /** Part of the cluster that starts nodes: its Auto Mode, or Karpenter 1 with the device plugin of NVIDIA. */
  nodes: z.enum(['auto-mode', 'karpenter']).default('auto-mode'),
  /** Name of the role of nodes that Karpenter starts. @default with Auto Mode, the deployment makes one */
  nodeRole: z
    .string()
    .regex(/^[A-Za-z0-9+=,.@_-]{1,64}$/, 'must be the name of a role of IAM')
    .optional(),
  /**
   * Address of its API server that the planner uses. With `private`, the planner's function runs in the network, and a
   * rule of the security group lets it in.
   */
  endpoint: z.enum(['private', 'public']).default('private'),
  /**
   * Nodes of Auto Mode get the tag `stator:deployment`. Without a right of the cluster's role to set tags, no node
   * starts. @default false
   */
  tagsNodes: z.boolean().default(false),
});

const Cidr = z.string().regex(/^(\d{1,3}\.){3}\d{1,3}\/\d{1,2}$/, 'must be a range of addresses, as 203.0.113.0/24');

/** The cluster in which fleets of `kind: 'eks'` run, and its objects. */
export const Eks = z
  .strictObject({
    /** A cluster of yours, whose VPC is `network.vpc`. @default the deployment makes one, with Auto Mode */
    cluster: Cluster.optional(),
    /** Version of Kubernetes of a cluster that the deployment makes. @default 1.36 */
    version: z
      .string()
      .regex(/^1\.\d{2}$/, 'must be a version of Kubernetes, as 1.36')
      .optional(),
    /** ARNs of roles or users that may do everything in a cluster that the deployment makes. */
    admins: z
      .array(Arn.regex(/:iam::\d{12}:(role|user)\//, 'must be the ARN of a role or user of IAM'))
      .max(20)
      .default([]),
    /**
     * Addresses that reach the API server of a cluster that the deployment makes. @default only those of the network
     */
    publicCidrs: z.array(Cidr).max(40).default([]),
    /** Namespace of the workers. The deployment makes it. */
    namespace: z
      .string()
      .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'must be the name of a namespace')
      .default('stator'),
    /** Disk of a node, GiB: images, and downloads of models. */
    diskGib: z.int().min(100).max(16_384).default(300),
    /** Applies the manifests with the deployment. @default they are only written to `cdk.out/k8s` */
    apply: z.boolean().default(false),
  })
  .prefault({});

interface Placed {
  readonly eks: z.infer<typeof Eks>;
  readonly fleets: Readonly<Record<string, { readonly kind: string; readonly gpuClaims?: boolean }>>;
  readonly network: { readonly vpc?: unknown };
}

/** Refuses settings of a cluster that contradict each other, and those that nothing would read. */
export function checkEks({ eks, fleets, network }: Placed, context: z.RefinementCtx): void {
  const refuse = (message: string, ...path: readonly string[]) =>
    context.addIssue({ code: 'custom', path: ['eks', ...path], message });
  const { cluster, apply, admins, publicCidrs, version } = eks;
  const kinds = new Set(Object.values(fleets).map(({ kind }) => kind));
  if (kinds.has('eks') && kinds.has('ec2')) {
    const message =
      'has kinds ec2 and eks: one planner scales one of them; put the others into a deployment of their own';
    context.addIssue({ code: 'custom', path: ['fleets'], message });
  }
  if (!kinds.has('eks')) {
    const given =
      cluster !== undefined || apply || admins.length > 0 || publicCidrs.length > 0 || version !== undefined;
    if (given) refuse('is for fleets of kind: eks, and there is none');
    return;
  }
  if (cluster === undefined) {
    refuseEarlyClaims({ eks, fleets }, context);
    if (!apply && admins.length === 0)
      refuse('is empty: without apply, someone must be let into the cluster to apply the manifests', 'admins');
    return;
  }
  if (network.vpc === undefined) refuse('needs network.vpc, the VPC of the cluster', 'cluster');
  if (cluster.nodes === 'karpenter' && cluster.nodeRole === undefined)
    refuse('is missing: nodes: karpenter needs the name of the role of its nodes', 'cluster', 'nodeRole');
  if (cluster.nodes === 'karpenter' && cluster.tagsNodes)
    refuse('is for nodes: auto-mode: Karpenter sets the tag by itself', 'cluster', 'tagsNodes');
  const made = { admins: admins.length > 0, publicCidrs: publicCidrs.length > 0, version: version !== undefined };
  for (const [key, isGiven] of Object.entries(made))
    if (isGiven) refuse('is for a cluster that the deployment makes, and cluster names one of yours', key);
}

/** First version of Kubernetes in which nodes of Auto Mode have the DRA driver of NVIDIA. */
const CLAIMS_FROM = '1.36';

/** Refuses claims of GPUs in a cluster whose nodes would have no driver for them. */
function refuseEarlyClaims({ eks: { version }, fleets }: Pick<Placed, 'eks' | 'fleets'>, context: z.RefinementCtx) {
  if (version === undefined || version >= CLAIMS_FROM) return; // versions have two digits behind the point
  for (const [name, { gpuClaims }] of Object.entries(fleets)) {
    if (gpuClaims !== true) continue;
    const message = `true: needs Kubernetes ${CLAIMS_FROM} with Auto Mode, and eks.version is ${version}`;
    context.addIssue({ code: 'custom', path: ['fleets', name, 'gpuClaims'], message });
  }
}
