/** A rule of cdk-nag that one construct, or several for one reason, break on purpose. */
interface Accepted {
  /** With what the rule found in brackets, for those that find more than one thing. */
  readonly rule: RegExp;
  /** Paths of constructs below their stacks. */
  readonly path: RegExp;
  readonly reason: string;
}

const PAID = 'access logs need an account-wide role; the function logs a line for each request';
const KEYS = 'API keys of Stator, which the function checks: stock clients send them as a bearer token';
/** Files of a bucket, however the template names it. */
const FILES = /^AwsSolutions-IAM5\[Resource::.*StoreArtifactsBucket.*\/\*\]$/;

export const ACCEPTED: readonly Accepted[] = [
  { rule: /-APIG1$/, path: /^Front\/Api\/Api\/DeploymentStage\.prod$/, reason: PAID },
  { rule: /-APIG6$/, path: /^Front\/Api\/Api\/DeploymentStage\.prod$/, reason: PAID },
  {
    rule: /-APIG2$/,
    path: /^Front\/Api\/Api$/,
    reason: 'requests are checked by the function, which answers as the APIs that it speaks do',
  },
  {
    rule: /-APIG3$/,
    path: /^Front\/Api\/Api\/DeploymentStage\.prod$/,
    reason: 'a firewall by limits.requestsPerAddress: it costs more than all of dev',
  },
  { rule: /-APIG4$/, path: /^Front\/Api\/Api\/Default\/(\{proxy\+\}\/)?ANY$/, reason: KEYS },
  { rule: /-COG4$/, path: /^Front\/Api\/Api\/Default\/(\{proxy\+\}\/)?ANY$/, reason: KEYS },
  {
    rule: /-EC23$/,
    path: /^Edge\/BalancerSecurityGroup$/,
    reason: 'listener: public is for everybody; what comes in shows a key',
  },
  {
    rule: /-ECS2$/,
    path: /^(Task|Edge|Workers)\/Task$/,
    reason: 'what is in the environment is no secret; secrets come from Secrets Manager',
  },
  {
    rule: /-ECS4$/,
    path: /^Task\/Cluster$/,
    reason: 'dev does without container insights, which cost more than its task',
  },
  {
    rule: /-IAM4\[Policy::.*AWSLambdaENIManagementAccess\]$/,
    path: /^(Front\/Http|Planner)\/Role$/,
    reason: 'network interfaces have no name before they exist: there is no narrower policy',
  },
  {
    rule: /-IAM4\[Policy::.*AWSCodeDeployRoleForLambdaLimited\]$/,
    path: /^Front\/Http\/Rollout\/ServiceRole$/,
    reason: 'what CodeDeploy itself says that it needs to move an alias',
  },
  { rule: FILES, path: /^Front\/Http\/Role\/DefaultPolicy$/, reason: 'files have no names before they are pushed' },
  { rule: FILES, path: /^OperatorPolicy$/, reason: 'files have no names before they are pushed' },
  { rule: FILES, path: /^Edge\/Task\/TaskRole\/DefaultPolicy$/, reason: 'files have no names before they are pushed' },
  {
    rule: /-IAM5\[Resource::\*\]$/,
    path: /^RotatorPolicy$/,
    reason: 'ecs:ListServices knows no narrower resource; a condition names the cluster',
  },
  {
    rule: /-IAM5\[Resource::arn:.*:service\/.*\/\*\]$/,
    path: /^RotatorPolicy$/,
    reason: 'services of one cluster: those of fleets are made in later stacks',
  },
  {
    rule: /-IAM5\[Resource::arn:.*:autoScalingGroup:\*:autoScalingGroupName\/Stator-[a-z0-9-]+\]$/,
    path: /^(Planner\/Role\/DefaultPolicy|Workers\/Role\/DefaultPolicy|Workers\/Option\d\/KeepZones\/CustomResourcePolicy)$/,
    reason: 'one group by its name: the id in its ARN is not known before the group exists',
  },
  {
    rule: /-IAM5\[Resource::\*\]$/,
    path: /^Workers\/Role\/DefaultPolicy$/,
    reason: 'ecr:GetAuthorizationToken knows no narrower resource',
  },
  {
    rule: /-IAM5\[Resource::arn:.*:s3:::my-models\/[a-z0-9.-]+\/[0-9a-f]+(\.compile)?\/\*\]$/,
    path: /^Workers\/Role\/DefaultPolicy$/,
    reason: 'files of the weights, of which the settings name the folder',
  },
  {
    rule: /-IAM4\[Policy::.*AWSLambdaBasicExecutionRole\]$/,
    path: /^AWS679f53fac002430cb0da5b7982bd2287\/ServiceRole$/,
    reason: 'the function of the CDK that suspends AZRebalance writes a log, and the CDK gives it this policy',
  },
  {
    rule: /-IAM4\[Policy::.*(AmazonSSMManagedInstanceCore|EC2ImageBuilderLifecycleExecutionPolicy)\]$/,
    path: /^Image-gpu\/(Builder|Cleaner)Role$/,
    reason: 'what Image Builder requires of machines that it drives, and to delete images with their snapshots',
  },
  {
    rule: /-IAM5\[Resource::arn:.*:(component\/stator_gpu_\*\/\*|s3:::ec2imagebuilder\*|log-group:\/aws\/imagebuilder\/Stator_gpu\/.*:\*)\]$/,
    path: /^Image-gpu\/BuilderRole\/DefaultPolicy$/,
    reason: 'components whose names follow from their content, buckets of Image Builder, and streams of one log',
  },
  {
    rule: /-IAM5\[Resource::\*\]$/,
    path: /^Image-gpu\/(BuilderRole\/DefaultPolicy|FirstImage\/CustomResourcePolicy)$/,
    reason: 'ecr:GetAuthorizationToken and ec2:DescribeImages know no narrower resource',
  },
  {
    rule: /-IAM4\[Policy::.*AmazonEKS(Cluster|Compute|BlockStorage|LoadBalancing|Networking)Policy\]$/,
    path: /^Cluster\/Cluster\/Role$/,
    reason: 'what EKS requires to run a cluster with Auto Mode',
  },
  {
    rule: /-IAM5\[Resource::\*\]$/,
    path: /^Cluster\/Cluster\/Role\/DefaultPolicy$/,
    reason: 'what EKS requires to set tags on new machines, which have no names: conditions name the cluster',
  },
  {
    rule: /-IAM4\[Policy::.*(AmazonEKSWorkerNodeMinimalPolicy|AmazonEC2ContainerRegistryPullOnly)\]$/,
    path: /^Cluster\/NodeRole$/,
    reason: 'what Auto Mode requires of nodes, and nothing else',
  },
  {
    rule: /-AS3$/,
    path: /^Workers\/Option\d\/Group\/ASG$/,
    reason: 'rules of EventBridge tell of machines',
  },
  {
    rule: /-EC26$/,
    path: /^Workers\/Option\d\/Group\/ASG$/,
    reason: 'the launch template encrypts the volume; the rule does not read templates of mixed groups',
  },
  {
    rule: /-IAM5\[Resource::\*\]$/,
    path: /^Planner\/Role\/DefaultPolicy$/,
    reason: 'looks at groups know no narrower resource',
  },
  {
    rule: /-IAM5\[Resource::\*\]$/,
    path: /^Wake\/Role\/DefaultPolicy$/,
    reason: 'the list of streams knows no narrower resource',
  },
  {
    rule: /-L1$/,
    path: /^(Front\/Http|Planner|Wake)\/Function$/,
    reason: 'Node 22, for which the functions are measured',
  },
  {
    rule: /-S1$/,
    path: /^Store\/Artifacts\/Bucket$/,
    reason: 'files of models have checksums for names, and frontends log what they fetch',
  },
  {
    rule: /-S1$/,
    path: /^Edge\/AccessLogs\/Bucket$/,
    reason: 'it holds access logs itself',
  },
  {
    rule: /-SQS3$/,
    path: /^Events\/Undelivered$/,
    reason: 'it holds what could not be delivered, and an alarm watches it',
  },
  {
    rule: /-SMG4$/,
    path: /^(Store\/Secrets\/(PlaneToken|IdSecret|NatsWorker|NatsRouter)|Nats\/Routes)$/,
    reason: 'a rotation restarts processes in an order of their own, which is not for a timer to do',
  },
  {
    rule: /-VPC7$/,
    path: /^Network\/Vpc$/,
    reason: 'flow logs are a choice of the operator: nothing here accepts connections from outside',
  },
];

/** Whether the list has a reason for a finding. */
export function isAccepted(
  { rule, path }: { readonly rule: string; readonly path: string },
  accepted: readonly Accepted[] = ACCEPTED,
): boolean {
  return accepted.some((each) => each.rule.test(rule) && each.path.test(path));
}
