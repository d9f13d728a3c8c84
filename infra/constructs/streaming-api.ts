import { Duration, Stack } from 'aws-cdk-lib';
import {
  EndpointType,
  LambdaIntegration,
  ResponseTransferMode,
  ResponseType,
  RestApi,
} from 'aws-cdk-lib/aws-apigateway';
import type { Metric, MetricOptions } from 'aws-cdk-lib/aws-cloudwatch';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import { codeRow, type ErrorCode, openAiErrorBody, ServeError } from '../../shared/errors/index.ts';
import { MINUTE } from './metrics.ts';

interface StreamingApiProps {
  /** Answers every path and method; its handler must be a streaming one. */
  readonly handler: IFunction;
  /** Sustained requests a second over all callers. */
  readonly requestsPerSecond: number;
  /** Requests that may come at once. */
  readonly burst: number;
  /** Whether its own name is its only one, so that certificates and TLS of that name hold for every call. */
  readonly hasOwnName: boolean;
}

/** Answers of the gateway itself, with the code whose status and type clients of OpenAI know. */
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
 * API Gateway in front of a streaming function. REST and regional, because only that kind streams a function's answer
 * as it is produced (15 minutes in all, 5 without a byte). It lets every call through, within its rate: the function
 * asks for API keys itself, in the headers that clients send by themselves. What it refuses itself has the body that
 * clients expect.
 */
export class StreamingApi extends Construct {
  /** Ends with a slash; the OpenAI base URL is this plus `v1`. */
  readonly url: string;
  readonly api: RestApi;

  constructor(scope: Construct, id: string, props: StreamingApiProps) {
    super(scope, id);
    const throttle = { rateLimit: props.requestsPerSecond, burstLimit: props.burst };
    this.api = new RestApi(this, 'Api', {
      // Its metrics have this name, and alarms must not hear those of another API.
      restApiName: `${Stack.of(this).stackName}-Api`,
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
