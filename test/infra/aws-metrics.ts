/**
 * Metrics of AWS services that alarms watch. By namespace and name it lists the sets of dimensions, each sorted and
 * joined by commas.
 */
export const awsMetrics: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  'AWS/Lambda': {
    Invocations: ['FunctionName', 'FunctionName,Resource'],
    Errors: ['FunctionName', 'FunctionName,Resource', 'ExecutedVersion,FunctionName,Resource'],
    Throttles: ['FunctionName', 'FunctionName,Resource'],
    Duration: ['FunctionName', 'FunctionName,Resource'],
    ConcurrentExecutions: ['', 'FunctionName', 'FunctionName,Resource'],
  },
  'AWS/Usage': { ResourceCount: ['Class,Resource,Service,Type'] },
  'AWS/ApiGateway': { '5XXError': ['ApiName', 'ApiName,Stage'] },
  'AWS/ApplicationELB': {
    HTTPCode_ELB_5XX_Count: ['LoadBalancer'],
    HTTPCode_Target_5XX_Count: ['LoadBalancer', 'LoadBalancer,TargetGroup'],
    RequestCount: ['LoadBalancer', 'LoadBalancer,TargetGroup'],
    UnHealthyHostCount: ['LoadBalancer,TargetGroup'],
    // A load balancer reports that of targets only if targets speak TLS, which tasks do not.
    ClientTLSNegotiationErrorCount: ['LoadBalancer'],
  },
  'ECS/ContainerInsights': {
    RunningTaskCount: ['ClusterName,ServiceName'],
    EphemeralStorageReserved: ['ClusterName', 'ClusterName,ServiceName', 'ClusterName,TaskDefinitionFamily'],
    EphemeralStorageUtilized: ['ClusterName', 'ClusterName,ServiceName', 'ClusterName,TaskDefinitionFamily'],
  },
  'AWS/DynamoDB': {
    ReadThrottleEvents: ['TableName', 'GlobalSecondaryIndexName,TableName'],
    WriteThrottleEvents: ['TableName', 'GlobalSecondaryIndexName,TableName'],
    SystemErrors: ['Operation,TableName'],
    SuccessfulRequestLatency: ['Operation,TableName'],
  },
  'AWS/SQS': { ApproximateAgeOfOldestMessage: ['QueueName'], ApproximateNumberOfMessagesVisible: ['QueueName'] },
  'AWS/NATGateway': { ErrorPortAllocation: ['NatGatewayId'], PacketsDropCount: ['NatGatewayId'] },
  'AWS/AutoScaling': {
    GroupDesiredCapacity: ['AutoScalingGroupName'],
    GroupInServiceInstances: ['AutoScalingGroupName'],
    GroupTerminatingInstances: ['AutoScalingGroupName'],
  },
  'AWS/Events': { TriggeredRules: ['RuleName'] },
  'AWS/CertificateManager': { DaysToExpiry: ['CertificateArn'] },
};
