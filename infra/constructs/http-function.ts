import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import type { IAlarm, Metric, MetricOptions } from 'aws-cdk-lib/aws-cloudwatch';
import { LambdaDeploymentConfig, LambdaDeploymentGroup } from 'aws-cdk-lib/aws-codedeploy';
import { type IGrantable, type IPrincipal, type IRole, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import {
  Alias,
  Architecture,
  type Code,
  type FunctionUrl,
  FunctionUrlAuthType,
  type IFunction,
  InvokeMode,
  type IVersion,
  Function as LambdaFunction,
  LoggingFormat,
  Runtime,
  SystemLogLevel,
} from 'aws-cdk-lib/aws-lambda';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import type { HttpFunctionChoice, HttpFunctionVariable } from '../../functions/http/environment.ts';
import type { EmbeddedMetric } from '../../shared/telemetry/index.ts';
import { attachmentPolicy, denyInterfaces } from './function-interfaces.ts';
import { completeEnvironment } from './given-environment.ts';
import { createLogGroup } from './log-groups.ts';
import { embeddedMetric, MINUTE } from './metrics.ts';
import type { Network } from './network.ts';

export interface HttpFunctionProps {
  /** Folder with `index.mjs`, which exports `handler`. */
  readonly code: Code;
  readonly network: Network;
  /** A value for every variable that the function's code reads, and for those whose part the deployment has. */
  readonly environment: Readonly<Record<HttpFunctionVariable, string> & Partial<Record<HttpFunctionChoice, string>>>;
  /** Further settings, of `edges.function.environment`. */
  readonly given: Readonly<Record<string, string>>;
  /** Also the CPU share: 1,769 MB are one core. */
  readonly memorySizeMb: number;
  /**
   * Most requests at a time, each in an environment of its own; more are refused with 429.
   * @default none: the account's limit
   */
  readonly concurrencyMax?: number | undefined;
  /** Days for which logs are kept. */
  readonly logRetentionDays: number;
}

/** The streaming HTTP frontend as a function: one request for each environment, in the network of the workers. */
export class HttpFunction extends Construct implements IGrantable {
  readonly function: LambdaFunction;
  /** Release that clients get, and that an API must call. */
  readonly live: IFunction;
  readonly grantPrincipal: IPrincipal;
  readonly #alias: Alias;

  constructor(scope: Construct, id: string, props: HttpFunctionProps) {
    super(scope, id);
    const logGroup = createLogGroup(this, props.logRetentionDays);
    const role = createRole(this, logGroup);
    this.function = new LambdaFunction(this, 'Function', {
      description: 'Stator: streaming HTTP frontend',
      code: props.code,
      handler: 'index.handler',
      runtime: Runtime.NODEJS_22_X,
      architecture: Architecture.ARM_64,
      memorySize: checkMemory(props.memorySizeMb),
      timeout: Duration.minutes(15), // the longest that Lambda and API Gateway allow
      environment: completeEnvironment(this, {
        process: 'function',
        own: props.environment,
        given: props.given,
        secrets: [],
        path: 'edges.function.environment',
        bytesMax: 4096, // of Lambda
      }),
      role,
      vpc: props.network.vpc,
      vpcSubnets: props.network.functionSubnets,
      securityGroups: [props.network.functionSecurityGroup],
      logGroup,
      loggingFormat: LoggingFormat.JSON,
      // The code writes its own line for each request; START, END and REPORT would be three more.
      systemLogLevelV2: SystemLogLevel.WARN,
      // Streams last up to 15 minutes on the release that they began at, and the alias can go back to one. That of a
      // failed deployment goes: Lambda publishes nothing that is the same as the last release, so that the next attempt
      // would fail.
      currentVersionOptions: { removalPolicy: RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE },
      ...(props.concurrencyMax === undefined ? {} : { reservedConcurrentExecutions: props.concurrencyMax }),
    });
    this.grantPrincipal = this.function.grantPrincipal;
    denyInterfaces(this, role, this.function.functionArn);
    this.#alias = new Alias(this, 'Live', { aliasName: 'live', version: this.function.currentVersion as IVersion });
    this.live = this.#alias as IFunction; // its optional properties are `T | undefined`
  }

  /**
   * From now on a release gets 10 % of the requests for five minutes, and all after that. An alarm in between brings
   * the one before back. Streams under way stay with the release that they began at.
   */
  rollOutGradually(alarms: readonly IAlarm[]): void {
    new LambdaDeploymentGroup(this, 'Rollout', {
      alias: this.#alias,
      deploymentConfig: LambdaDeploymentConfig.CANARY_10PERCENT_5MINUTES,
      alarms: [...alarms],
    });
  }

  /** From now on a release gets all requests at once, and no alarm stops it: for the one that ends an outage. */
  rollOutAtOnce(): void {
    new LambdaDeploymentGroup(this, 'Rollout', {
      alias: this.#alias,
      deploymentConfig: LambdaDeploymentConfig.ALL_AT_ONCE,
    });
  }

  /** A streaming URL of the function itself, for callers that sign their requests (`AWS_IAM`). */
  addStreamingUrl(): FunctionUrl {
    return this.#alias.addFunctionUrl({
      authType: FunctionUrlAuthType.AWS_IAM,
      invokeMode: InvokeMode.RESPONSE_STREAM,
    });
  }

  /**
   * Invocations that failed, a minute: the code threw, ran out of time or memory. A request that was answered with 5xx
   * is not one.
   */
  metricErrors(): Metric {
    return this.#alias.metricErrors({ period: MINUTE });
  }

  /** Returns the errors of only the newest release, while the previous one still gets a part of the requests. */
  metricReleaseErrors(): Metric {
    const { functionName, currentVersion } = this.function;
    return this.metricErrors().with({
      dimensionsMap: {
        FunctionName: functionName,
        Resource: `${functionName}:${this.#alias.aliasName}`,
        ExecutedVersion: currentVersion.version,
      },
    });
  }

  /** Share of the requests of the newest release that a fault of its own ended. */
  metricReleaseInternalErrors(): Metric {
    const dimensionsMap = { FunctionVersion: this.function.currentVersion.version };
    return this.metricOfRequests('InternalErrors', { dimensionsMap, statistic: 'Average' });
  }

  /** Returns the duration of ended invocations, in milliseconds. */
  metricDuration(options: MetricOptions): Metric {
    return this.function.metricDuration({ period: MINUTE, ...options });
  }

  /** Requests that were refused because no further environment may start, a minute. */
  metricThrottles(): Metric {
    return this.function.metricThrottles({ period: MINUTE });
  }

  /** Returns a metric of its requests, from the lines of its log. */
  metricOfRequests(name: EmbeddedMetric, options: MetricOptions = {}): Metric {
    return embeddedMetric(name, { FunctionName: this.function.functionName }, options);
  }

  /** Most environments at work at a time. */
  metricConcurrency(): Metric {
    return this.function.metric('ConcurrentExecutions', { period: MINUTE, statistic: 'Maximum' });
  }
}

/** Only what the function does: write its own log and attach to the network. */
function createRole(scope: Construct, logGroup: ILogGroup): IRole {
  const role = new Role(scope, 'Role', {
    assumedBy: new ServicePrincipal('lambda.amazonaws.com'),
    description: 'Stator: HTTP function',
    // Network interfaces have no name before they exist, so that policy cannot be narrower than AWS's own.
    managedPolicies: [attachmentPolicy()],
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
