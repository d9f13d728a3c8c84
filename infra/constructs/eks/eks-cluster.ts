import type { IVpc } from 'aws-cdk-lib/aws-ec2';
import {
  type CfnAccessEntry,
  Cluster,
  ClusterLoggingTypes,
  EndpointAccess,
  type ICluster,
  KubectlProvider,
  type KubectlProviderOptions,
  KubernetesVersion,
} from 'aws-cdk-lib/aws-eks-v2';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { ILayerVersion } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import type { Settings } from '../../settings/index.ts';
import type { Network } from '../network.ts';
import { ManifestFile } from './manifest-file.ts';
import { ManifestValues } from './manifest-values.ts';
import { ownClassesOf } from './node-classes.ts';
import { admitAdmin, admitNodes, createNodeRole } from './node-role.ts';
import { allowTags } from './node-tags.ts';
import { type NodeStarter, nodeClass } from './nodes.ts';

/** Creates the layer with kubectl, by which a deployment applies manifests. */
export type KubectlLayer = (scope: Construct) => ILayerVersion;

export interface EksClusterProps {
  /** Name of the deployment. */
  readonly deployment: string;
  readonly settings: Settings;
  readonly network: Network;
  /** Key that encrypts the secrets of a cluster that is made. @default one of EKS's own */
  readonly encryptionKey?: IKey | undefined;
  /** @default none: manifests are only written */
  readonly kubectl?: KubectlLayer | undefined;
}

/** Version of Kubernetes of a cluster that is made. */
const VERSION = '1.36';

/** A cluster that is open for the deployment. */
interface Opened {
  readonly cluster: ICluster;
  /** Name of the role of its nodes with GPUs. */
  readonly nodeRole: string;
  /** Entry that lets kubectl in. @default the cluster has one by itself, or nothing is applied */
  readonly admission?: CfnAccessEntry | undefined;
}

/** Returns the name of the cluster of a deployment. That of one that is made is known before it exists. */
export function clusterNameOf(deployment: string, { cluster }: Settings['eks']): string {
  return cluster?.name ?? deployment;
}

/**
 * The cluster of the fleets on EKS, made here or yours, with what all fleets in it share: the namespace, and the class
 * of their nodes.
 *
 *     node class ──> node pool of an option ──> node: pod, pod
 */
export class EksCluster extends Construct {
  readonly clusterName: string;
  readonly namespace: string;
  /** Security group of the API server and of the nodes. */
  readonly securityGroupId: string;
  readonly nodeStarter: NodeStarter;
  /** Name of the class of nodes with GPUs. */
  readonly nodeClassName: string;
  /** Cluster to apply manifests to. undefined = they are only written. */
  readonly applied: ICluster | undefined;

  constructor(scope: Construct, id: string, props: EksClusterProps) {
    super(scope, id);
    const { deployment, settings, network } = props;
    const { eks } = settings;
    const { cluster: yours } = eks;
    this.clusterName = clusterNameOf(deployment, eks);
    this.namespace = eks.namespace;
    this.nodeStarter = yours?.nodes ?? 'auto-mode';
    this.nodeClassName = `${deployment.toLowerCase()}-gpu`;
    const values = new ManifestValues();
    const { cluster, nodeRole, admission } = yours === undefined ? this.#make(props) : this.#use(props, yours);
    this.securityGroupId = yours?.securityGroupId ?? cluster.clusterSecurityGroupId;
    this.applied = props.kubectl === undefined ? undefined : cluster;
    const { subnets } = network.vpc.selectSubnets(network.taskSubnets);
    const groups = [this.securityGroupId, network.workerSecurityGroup.securityGroupId];
    const shared = {
      starter: this.nodeStarter,
      role: values.placeOf('NodeRole', nodeRole),
      subnets: values.placesOf(
        'Subnet',
        subnets.map(({ subnetId }) => subnetId),
      ),
      securityGroups: values.placesOf('SecurityGroup', groups),
      diskGib: eks.diskGib,
      tag: yours === undefined || yours.nodes === 'karpenter' || yours.tagsNodes ? deployment : undefined,
    };
    const file = new ManifestFile(this, 'Manifest', {
      values,
      cluster: this.applied,
      objects: [
        {
          apiVersion: 'v1',
          kind: 'Namespace',
          metadata: {
            name: this.namespace,
            labels: { 'pod-security.kubernetes.io/enforce': 'restricted' },
          },
        },
        nodeClass({ ...shared, name: this.nodeClassName }),
        ...ownClassesOf(settings).map(({ name, ...needs }) => nodeClass({ ...shared, name }, needs)),
      ],
    });
    if (admission !== undefined) file.node.addDependency(admission); // without it, kubectl is refused
  }

  #make(props: EksClusterProps): Opened {
    const { settings, network, encryptionKey, kubectl } = props;
    const { version = VERSION, admins, publicCidrs } = settings.eks;
    const nodeRole = createNodeRole(this);
    const cluster = new Cluster(this, 'Cluster', {
      clusterName: this.clusterName,
      version: KubernetesVersion.of(version),
      vpc: network.vpc as IVpc,
      vpcSubnets: [network.taskSubnets],
      // Its own node pools have that role too, so that the cluster knows it.
      compute: { nodePools: ['system', 'general-purpose'], nodeRole },
      endpointAccess:
        publicCidrs.length === 0 ? EndpointAccess.PRIVATE : EndpointAccess.PUBLIC_AND_PRIVATE.onlyFrom(...publicCidrs),
      bootstrapClusterCreatorAdminPermissions: false,
      clusterLogging: [ClusterLoggingTypes.AUDIT, ClusterLoggingTypes.AUTHENTICATOR],
      outputConfigCommand: false,
      ...(encryptionKey === undefined ? {} : { secretsEncryptionKey: encryptionKey }),
      ...(kubectl === undefined ? {} : { kubectlProviderOptions: kubectlWithin(this, kubectl, network) }),
    });
    allowTags(cluster.role);
    admins.forEach((principalArn, at) => {
      admitAdmin(this, `Admin${at}`, cluster.clusterName, principalArn);
    });
    return { cluster: cluster as ICluster, nodeRole: nodeRole.roleName };
  }

  #use(props: EksClusterProps, yours: NonNullable<Settings['eks']['cluster']>): Opened {
    const { network, kubectl } = props;
    const { name: clusterName, securityGroupId: clusterSecurityGroupId, nodeRole } = yours;
    const known = { clusterName, clusterSecurityGroupId, vpc: network.vpc as IVpc };
    const found = Cluster.fromClusterAttributes(this, 'Cluster', known);
    let cluster = found;
    let admission: CfnAccessEntry | undefined;
    if (kubectl !== undefined) {
      const kubectlProvider = new KubectlProvider(this, 'KubectlProvider', {
        cluster: found,
        ...kubectlWithin(this, kubectl, network),
      });
      admission = admitAdmin(this, 'KubectlAccess', clusterName, kubectlProvider.role?.roleArn ?? '');
      cluster = Cluster.fromClusterAttributes(this, 'AppliedCluster', { ...known, kubectlProvider });
    }
    if (nodeRole !== undefined) return { cluster, nodeRole, admission };
    const made = createNodeRole(this);
    admitNodes(this, clusterName, made);
    return { cluster, nodeRole: made.roleName, admission };
  }
}

/** Returns the place of kubectl, from which it reaches the cluster by its security group. */
function kubectlWithin(scope: Construct, kubectl: KubectlLayer, { vpc, taskSubnets }: Network): KubectlProviderOptions {
  return { kubectlLayer: kubectl(scope), privateSubnets: vpc.selectSubnets(taskSubnets).subnets };
}
