import { Duration } from 'aws-cdk-lib';
import { EndpointType, LambdaIntegration, ResponseTransferMode, RestApi } from 'aws-cdk-lib/aws-apigateway';
import { type Alarm, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';

export interface StreamingApiProps {
  /** Answers every path and method; its handler must be a streaming one. */
  readonly handler: IFunction;
  /** Sustained requests a second over all callers. @default 100 */
  readonly requestsPerSecond?: number;
  /** Requests that may come at once. @default 200 */
  readonly burst?: number;
  /** First segment of the public path. @default 'prod' */
  readonly stageName?: string;
}

/**
 * API Gateway in front of a streaming function. REST and regional, because only that kind streams a function's answer as it
 * is produced (15 minutes in all, 5 without a byte). It lets every call through, within its rate: the function asks for API
 * keys itself, in the headers that clients send by themselves.
 */
export class StreamingApi extends Construct {
  /** Ends with a slash; the OpenAI base URL is this plus `v1`. */
  readonly url: string;
  /** Requests fail in API Gateway or with a 5xx of the function. */
  readonly serverErrorAlarm: Alarm;

  constructor(scope: Construct, id: string, props: StreamingApiProps) {
    super(scope, id);
    const throttle = { rateLimit: props.requestsPerSecond ?? 100, burstLimit: props.burst ?? 200 };
    const api = new RestApi(this, 'Api', {
      description: 'Stator: streaming HTTP frontend',
      endpointTypes: [EndpointType.REGIONAL],
      // Access logs would need an account-wide role; the function writes a line for each request.
      cloudWatchRole: false,
      deployOptions: {
        stageName: props.stageName ?? 'prod',
        throttlingRateLimit: throttle.rateLimit,
        throttlingBurstLimit: throttle.burstLimit,
      },
      defaultIntegration: new LambdaIntegration(props.handler, {
        responseTransferMode: ResponseTransferMode.STREAM,
        timeout: Duration.minutes(15),
        allowTestInvoke: false, // the console's test buffers the answer and would need a permission of its own
      }),
    });
    api.root.addMethod('ANY');
    api.root.addProxy({ anyMethod: true });

    this.url = api.url;
    this.serverErrorAlarm = api
      .metricServerError({ period: Duration.minutes(1) })
      .createAlarm(this, 'ServerErrorAlarm', {
        alarmDescription: 'The streaming API answers with 5xx',
        threshold: 1,
        evaluationPeriods: 5,
        datapointsToAlarm: 3,
        treatMissingData: TreatMissingData.NOT_BREACHING,
      });
  }
}
