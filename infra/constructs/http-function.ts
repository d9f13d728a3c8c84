import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import { type Alarm, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import {
  type IGrantable,
  type IPrincipal,
  type IRole,
  ManagedPolicy,
  Role,
  ServicePrincipal,
} from 'aws-cdk-lib/aws-iam';
import {
  Architecture,
  type Code,
  type FunctionUrl,
  FunctionUrlAuthType,
  InvokeMode,
  Function as LambdaFunction,
  LoggingFormat,
  Runtime,
  SystemLogLevel,
} from 'aws-cdk-lib/aws-lambda';
import { type ILogGroup, LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import type { HttpFunctionChoice, HttpFunctionVariable } from '../../functions/http/environment.ts';
import type { Network } from './network.ts';

export interface HttpFunctionProps {
  /** Folder with `index.mjs`, which exports `handler`. */
  readonly code: Code;
  readonly network: Network;
  /** A value for every variable that the function's code reads, and for those whose part the deployment has. */
  readonly environment: Readonly<Record<HttpFunctionVariable, string> & Partial<Record<HttpFunctionChoice, string>>>;
  /** Also the CPU share: 1,769 MB are one core. @default 1769 */
  readonly memorySizeMb?: number;
  /** Longest answer. @default 15 minutes, the longest that Lambda and API Gateway allow */
  readonly timeout?: Duration;
  /**
   * Most requests at a time, each in an environment of its own; more are refused with 429.
   * @default none: the account's limit
   */
  readonly concurrencyMax?: number;
  /** @default RetentionDays.ONE_MONTH */
  readonly logRetention?: RetentionDays;
}

/** The streaming HTTP frontend as a function: one request for each environment, in the network of the workers. */
export class HttpFunction extends Construct implements IGrantable {
  readonly function: LambdaFunction;
  readonly grantPrincipal: IPrincipal;
  /** An invocation failed: the code threw, ran out of time or memory. A request that was answered with 5xx is not one. */
  readonly errorAlarm: Alarm;
  /** Requests were refused because no further environment may start. */
  readonly throttleAlarm: Alarm;

  constructor(scope: Construct, id: string, props: HttpFunctionProps) {
    super(scope, id);
    const logGroup = new LogGroup(this, 'LogGroup', {
      retention: props.logRetention ?? RetentionDays.ONE_MONTH,
      removalPolicy: RemovalPolicy.DESTROY,
    });
    this.function = new LambdaFunction(this, 'Function', {
      description: 'Stator: streaming HTTP frontend',
      code: props.code,
      handler: 'index.handler',
      runtime: Runtime.NODEJS_22_X,
      architecture: Architecture.ARM_64,
      memorySize: checkMemory(props.memorySizeMb ?? 1769),
      timeout: checkTimeout(props.timeout ?? Duration.minutes(15)),
      environment: props.environment,
      role: createRole(this, logGroup),
      vpc: props.network.vpc,
      vpcSubnets: props.network.subnets,
      securityGroups: [props.network.functionSecurityGroup],
      logGroup,
      loggingFormat: LoggingFormat.JSON,
      // The code writes its own line for each request; START, END and REPORT would be three more.
      systemLogLevelV2: SystemLogLevel.WARN,
      ...(props.concurrencyMax === undefined ? {} : { reservedConcurrentExecutions: props.concurrencyMax }),
    });
    this.grantPrincipal = this.function.grantPrincipal;
    this.errorAlarm = this.function
      .metricErrors({ period: Duration.minutes(1) })
      .createAlarm(this, 'ErrorAlarm', { ...ALARM, alarmDescription: 'Invocations of the HTTP function fail' });
    this.throttleAlarm = this.function
      .metricThrottles({ period: Duration.minutes(1) })
      .createAlarm(this, 'ThrottleAlarm', { ...ALARM, alarmDescription: 'The HTTP function has no concurrency left' });
  }

  /** A streaming URL of the function itself, for callers that sign their requests (`AWS_IAM`). */
  addStreamingUrl(): FunctionUrl {
    return this.function.addFunctionUrl({
      authType: FunctionUrlAuthType.AWS_IAM,
      invokeMode: InvokeMode.RESPONSE_STREAM,
    });
  }
}

const ALARM = {
  threshold: 1,
  evaluationPeriods: 5,
  datapointsToAlarm: 3,
  treatMissingData: TreatMissingData.NOT_BREACHING,
} as const;

/** Only what the function does: write its own log and attach to the network. */
function createRole(scope: Construct, logGroup: ILogGroup): IRole {
  const role = new Role(scope, 'Role', {
    assumedBy: new ServicePrincipal('lambda.amazonaws.com'),
    description: 'Stator: HTTP function',
    // Network interfaces have no name before they exist, so that policy cannot be narrower than AWS's own.
    managedPolicies: [ManagedPolicy.fromAwsManagedPolicyName('service-role/AWSLambdaENIManagementAccess')],
  });
  logGroup.grantWrite(role);
  return role;
}

function checkMemory(memorySizeMb: number): number {
  if (memorySizeMb < 256 || memorySizeMb > 10_240) {
    throw new Error(`memorySizeMb must lie between 256 and 10240, not ${memorySizeMb}`);
  }
  return memorySizeMb;
}

/** Work ends 10 s before the timeout, so a shorter one leaves no time to answer. */
function checkTimeout(timeout: Duration): Duration {
  const seconds = timeout.toSeconds();
  if (seconds < 30 || seconds > 900) throw new Error(`timeout must lie between 30 and 900 seconds, not ${seconds}`);
  return timeout;
}
