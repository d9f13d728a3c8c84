import { Stack, type StackProps } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { EksCluster, type KubectlLayer } from '../constructs/eks/eks-cluster.ts';
import { keyOf } from '../constructs/fleet-store.ts';
import { keepLogs } from '../constructs/log-groups.ts';
import { followReferences } from '../constructs/stack-references.ts';
import type { Settings } from '../settings/index.ts';
import type { DataStack } from './data-stack.ts';

interface EksStackProps extends StackProps {
  readonly data: DataStack;
  /** Layer with kubectl, for `eks.apply`. @default manifests are only written */
  readonly kubectl?: KubectlLayer | undefined;
  readonly settings: Settings;
}

/** The cluster of the fleets on EKS, with what they share there. */
export class EksStack extends Stack {
  readonly cluster: EksCluster;

  constructor(scope: Construct, id: string, { data, kubectl, settings, ...props }: EksStackProps) {
    const isMade = settings.eks.cluster === undefined;
    super(scope, id, {
      description: isMade ? 'Stator: cluster of EKS' : 'Stator: parts that its fleets share in a cluster of EKS',
      terminationProtection: settings.retain && isMade,
      ...props,
    });
    this.cluster = new EksCluster(this, 'Cluster', {
      deployment: settings.name,
      settings,
      network: data.network,
      encryptionKey: keyOf(this, settings),
      kubectl,
    });
    followReferences(this);
    if (settings.retain) keepLogs(this);
  }
}
