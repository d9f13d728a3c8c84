import { Aws, CfnOutput, Duration, Stack } from 'aws-cdk-lib';
import {
  DomainName,
  EndpointType,
  type IRestApi,
  LambdaIntegration,
  ResponseTransferMode,
  ResponseType,
  RestApi,
  SecurityPolicy,
} from 'aws-cdk-lib/aws-apigateway';
import { Certificate } from 'aws-cdk-lib/aws-certificatemanager';
import type { Metric, MetricOptions } from 'aws-cdk-lib/aws-cloudwatch';
import { ManagedPolicy } from 'aws-cdk-lib/aws-iam';
import type { Code, FunctionUrl, IFunction } from 'aws-cdk-lib/aws-lambda';
import { ARecord, HostedZone, RecordTarget } from 'aws-cdk-lib/aws-route53';
import { ApiGatewayDomain } from 'aws-cdk-lib/aws-route53-targets';
import { Construct } from 'constructs';
import { codeRow, type ErrorCode, openAiErrorBody, ServeError } from '../../shared/errors/index.ts';
import { reservedConcurrency, type Settings } from '../settings/index.ts';
import { Firewall } from './firewall.ts';
import type { FleetStore } from './fleet-store.ts';
import { HttpFunction } from './http-function.ts';
import { MINUTE } from './metrics.ts';
import type { Network } from './network.ts';
import { EVERY_PROCESS, frontendEnvironment } from './process-environment.ts';

interface PublicNameProps {
  readonly name: string;
  /** Certificate of ACM for it, in the region of the API. */
  readonly certificateArn: string;
  readonly api: RestApi;
  /** Hosted zone of Route 53 in which the name is made. @default none: point the name at `target` by hand */
  readonly hostedZone?: { readonly id: string; readonly name: string } | undefined;
}

/** A name of your own for the API, without the stage in its path. */
class PublicName extends Construct {
  /** What the name stands for: a CNAME or alias goes there. */
  readonly target: string;

  constructor(scope: Construct, id: string, { name, certificateArn, api, hostedZone }: PublicNameProps) {
    super(scope, id);
    const domain = new DomainName(this, 'Domain', {
      domainName: name,
      certificate: Certificate.fromCertificateArn(this, 'Certificate', certificateArn),
      endpointType: EndpointType.REGIONAL,
      securityPolicy: SecurityPolicy.TLS_1_2,
      mapping: api as IRestApi, // its optional properties are `T | undefined`
    });
    this.target = domain.domainNameAliasDomainName;
    if (hostedZone === undefined) return;
    const zone = HostedZone.fromHostedZoneAttributes(this, 'Zone', {
      hostedZoneId: hostedZone.id,
      zoneName: hostedZone.name,
    });
    new ARecord(this, 'Record', {
      zone,
      recordName: `${name}.`,
      target: RecordTarget.fromAlias(new ApiGatewayDomain(domain)),
    });
  }
}

interface StreamingApiProps {
  /** Answers every path and method; its handler must be a streaming one. */
  readonly handler: IFunction;
  /** Sustained requests a second over all callers. */
  readonly requestsPerSecond: number;
  /** Requests that may come at once. */
  readonly burst: number;
  /** It has a name of its own, and no other: what is decided by name (certificates, TLS) holds for every call. */
  readonly hasOwnName: boolean;
}

/** What the gateway says by itself, with the code whose status and type a client of OpenAI's knows. */
const GATEWAY_ERRORS: readonly (readonly [type: ResponseType, code: ErrorCode, message: string])[] = [
  [ResponseType.REQUEST_TOO_LARGE, 'request_too_large', 'the body is larger than the 6 MB that this endpoint takes'],
  [ResponseType.THROTTLED, 'rate_limit_exceeded', 'too many requests: this endpoint is at its rate limit'],
  [ResponseType.QUOTA_EXCEEDED, 'rate_limit_exceeded', 'too many requests: this endpoint is at its quota'],
  [ResponseType.WAF_FILTERED, 'insufficient_permissions', 'this request is refused by a rule in front of the endpoint'],
  [ResponseType.ACCESS_DENIED, 'insufficient_permissions', 'this request is not allowed'],
  [ResponseType.MISSING_AUTHENTICATION_TOKEN, 'not_found', 'there is nothing at this path'],
  [ResponseType.RESOURCE_NOT_FOUND, 'not_found', 'there is nothing at this path'],
  [ResponseType.UNSUPPORTED_MEDIA_TYPE, 'unsupported_media_type', 'this media type is not supported'],
  [ResponseType.INTEGRATION_TIMEOUT, 'deadline_exceeded', 'the answer took longer than this endpoint waits'],
  [ResponseType.INTEGRATION_FAILURE, 'deadline_exceeded', 'no answer came: try again'],
  [ResponseType.DEFAULT_4XX, 'invalid_value', 'this request cannot be served'],
  [ResponseType.DEFAULT_5XX, 'internal_error', 'the endpoint failed: try again'],
];

/**
 * API Gateway in front of a streaming function. REST and regional, because only that kind streams a function's answer as it
 * is produced (15 minutes in all, 5 without a byte). It lets every call through, within its rate: the function asks for API
 * keys itself, in the headers that clients send by themselves. What it refuses itself has the body that clients expect.
 */
class StreamingApi extends Construct {
  /** Ends with a slash; the OpenAI base URL is this plus `v1`. */
  readonly url: string;
  readonly api: RestApi;

  constructor(scope: Construct, id: string, props: StreamingApiProps) {
    super(scope, id);
    const throttle = { rateLimit: props.requestsPerSecond, burstLimit: props.burst };
    this.api = new RestApi(this, 'Api', {
      restApiName: `${Stack.of(this).stackName}-Api`, // its metrics have this name, and alarms must not hear another API's
      description: 'Stator: streaming HTTP frontend',
      endpointTypes: [EndpointType.REGIONAL],
      disableExecuteApiEndpoint: props.hasOwnName,
      // Access logs would need an account-wide role; the function writes a line for each request.
      cloudWatchRole: false,
      deployOptions: {
        stageName: 'prod',
        throttlingRateLimit: throttle.rateLimit,
        throttlingBurstLimit: throttle.burstLimit,
      },
      defaultIntegration: new LambdaIntegration(props.handler, {
        responseTransferMode: ResponseTransferMode.STREAM,
        timeout: Duration.minutes(15),
        allowTestInvoke: false, // the console's test buffers the answer and would need a permission of its own
      }),
    });
    this.api.root.addMethod('ANY');
    this.api.root.addProxy({ anyMethod: true });
    for (const [type, code, message] of GATEWAY_ERRORS) this.#answer(type, code, message);
    this.url = this.api.url;
  }

  /** Requests that failed in API Gateway or with a 5xx of the function, a minute. */
  metricServerErrors(options: MetricOptions = {}): Metric {
    return this.api.metricServerError({ period: MINUTE, statistic: 'Sum', ...options });
  }

  /** Requests, a minute. */
  metricRequests(): Metric {
    return this.api.metricCount({ period: MINUTE, statistic: 'Sum' });
  }

  /** Refused by the gateway: too many, too large, or not understood; and 4xx of the function. */
  metricClientErrors(): Metric {
    return this.api.metricClientError({ period: MINUTE, statistic: 'Sum' });
  }

  #answer(type: ResponseType, code: ErrorCode, message: string): void {
    const body = openAiErrorBody(new ServeError(code, message));
    const isDefault = type === ResponseType.DEFAULT_4XX || type === ResponseType.DEFAULT_5XX;
    this.api.addGatewayResponse(type.responseType, {
      type,
      // The defaults stand for several statuses, of which each keeps its own.
      ...(isDefault ? {} : { statusCode: String(codeRow(code).status) }),
      templates: { 'application/json': JSON.stringify(body) },
      ...(code === 'rate_limit_exceeded' ? { responseHeaders: { 'Retry-After': "'1'" } } : {}),
    });
  }
}

interface PublicFrontProps {
  /** The bundled HTTP function (`infra/bundle.ts`). */
  readonly code: Code;
  readonly network: Network;
  readonly store: FleetStore;
  readonly settings: Settings;
}

/** What clients reach: the streaming API and the function behind it, with a firewall and a name where they are asked for. */
export class PublicFront extends Construct {
  readonly function: HttpFunction;
  readonly api: StreamingApi;
  readonly url: FunctionUrl | undefined;
  readonly name: PublicName | undefined;
  /** Base URL for OpenAI clients. */
  readonly baseUrl: string;

  constructor(scope: Construct, id: string, { code, network, store, settings }: PublicFrontProps) {
    super(scope, id);
    const { edges, limits, domain } = settings;
    this.function = new HttpFunction(this, 'Http', {
      code,
      network,
      given: edges.function.environment,
      memorySizeMb: edges.function.memoryMb,
      logRetentionDays: settings.logRetentionDays,
      concurrencyMax: reservedConcurrency(settings),
      environment: {
        ...EVERY_PROCESS,
        ...store.environment,
        ...store.frontendEnvironment(),
        ...frontendEnvironment(settings),
        DYN_ROUTER_MODE: 'kv',
        DYN_HTTP_BODY_LIMIT_MB: '6',
        // Nothing between a client and the function may take a stream that waits for a dead one.
        DYN_HTTP_SSE_KEEP_ALIVE_INTERVAL_MS: '10000',
        STATOR_DEADLINE_MARGIN_SECS: '10',
        ...(limits.holdSecs === 0 ? {} : { STATOR_HOLD_TIMEOUT: String(limits.holdSecs) }),
        ...(limits.maxTokensFunction === 0 ? {} : { STATOR_MAX_TOKENS_DEFAULT: String(limits.maxTokensFunction) }),
      },
    });
    store.grantFront(this.function);
    this.api = new StreamingApi(this, 'Api', {
      handler: this.function.live,
      requestsPerSecond: limits.requestsPerSecond,
      burst: limits.burst,
      hasOwnName: domain !== undefined,
    });
    const { requestsPerAddress } = limits;
    if (requestsPerAddress !== undefined) {
      new Firewall(this, 'Firewall', { resourceArn: this.api.api.deploymentStage.stageArn, requestsPerAddress });
    }
    this.url = edges.function.url ? this.function.addStreamingUrl() : undefined;
    this.name = domain === undefined ? undefined : new PublicName(this, 'Name', { ...domain, api: this.api.api });
    this.baseUrl = domain === undefined ? `${this.api.url}v1` : `https://${domain.name}/v1`;
  }
}

/** Adds what a user needs to know after the deployment, in the order in which it is needed. */
export function describeFront(stack: Stack, store: FleetStore, front: PublicFront): void {
  const operator = new ManagedPolicy(stack, 'OperatorPolicy', {
    description: 'Stator: what stator keys and artifacts need',
  });
  store.grantOperate(operator);
  const output = (id: string, value: string, description: string) => new CfnOutput(stack, id, { value, description });
  output('BaseUrl', front.baseUrl, 'Base URL for OpenAI clients; Anthropic clients take it without /v1');
  const place = `AWS_REGION=${Aws.REGION} STATOR_KEYS_TABLE=${store.keys.tableName}`;
  output('CreateKeyCommand', `${place} npx stator keys create --name first`, 'Makes the first API key');
  output('KeysTableName', store.keys.tableName, 'STATOR_KEYS_TABLE of stator keys');
  output('OperatorPolicyArn', operator.managedPolicyArn, 'Policy for whoever runs stator keys and stator artifacts');
  output('ArtifactsBucketName', store.artifacts.bucketName, 'Bucket for stator artifacts push');
  output('DiscoveryTableName', store.discovery.tableName, 'STATOR_DISCOVERY_TABLE of workers and edges');
  output('RouterStateTableName', store.routerState.tableName, 'STATOR_STATE_TABLE of container edges');
  output(
    'FunctionName',
    front.function.function.functionName,
    'Function of the API, whose alias live is the release that clients get',
  );
  if (front.name !== undefined) output('PublicTarget', front.name.target, 'What the name of the API points at');
  if (front.url !== undefined) output('FunctionUrl', front.url.url, 'For callers that sign with SigV4');
}
