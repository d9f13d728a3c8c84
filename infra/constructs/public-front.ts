import { Aws, CfnOutput, type Stack } from 'aws-cdk-lib';
import { DomainName, EndpointType, type IRestApi, type RestApi, SecurityPolicy } from 'aws-cdk-lib/aws-apigateway';
import { Certificate } from 'aws-cdk-lib/aws-certificatemanager';
import { ManagedPolicy } from 'aws-cdk-lib/aws-iam';
import type { Code, FunctionUrl } from 'aws-cdk-lib/aws-lambda';
import { ApiGatewayDomain } from 'aws-cdk-lib/aws-route53-targets';
import { Construct } from 'constructs';
import { holdSecsOf, reservedConcurrency, type Settings } from '../settings/index.ts';
import { Firewall } from './firewall.ts';
import type { FleetStore } from './fleet-store.ts';
import { HttpFunction } from './http-function.ts';
import type { Network } from './network.ts';
import type { PlannerTable } from './planner/planner-table.ts';
import { EVERY_PROCESS, frontendEnvironment } from './process-environment.ts';
import { StreamingApi } from './streaming-api.ts';
import { addZoneRecord } from './zone-record.ts';

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
  /** Target of the name, for a CNAME or an alias. */
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
    addZoneRecord(this, 'Record', { name, hostedZone, target: new ApiGatewayDomain(domain) });
  }
}

interface PublicFrontProps {
  /** The bundled HTTP function (`infra/bundle.ts`). */
  readonly code: Code;
  readonly network: Network;
  readonly store: FleetStore;
  readonly settings: Settings;
  /** Table of the planner, in which the function notes what it holds. @default there is no planner */
  readonly plans?: PlannerTable | undefined;
}

/**
 * Front that clients reach: the streaming API and its function, with a firewall and a name if the settings ask for
 * them.
 */
export class PublicFront extends Construct {
  readonly function: HttpFunction;
  readonly api: StreamingApi;
  readonly url: FunctionUrl | undefined;
  readonly name: PublicName | undefined;
  /** Base URL for OpenAI clients. */
  readonly baseUrl: string;

  constructor(scope: Construct, id: string, { code, network, store, settings, plans }: PublicFrontProps) {
    super(scope, id);
    const { edges, limits, domain } = settings;
    const holdSecs = holdSecsOf(settings);
    const notesTable = holdSecs === 0 ? undefined : plans; // what holds nothing has nothing to note
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
        ...(holdSecs === 0 ? {} : { STATOR_HOLD_TIMEOUT: String(holdSecs) }),
        ...(notesTable === undefined ? {} : { STATOR_PLANNER_TABLE: notesTable.tableName }),
        ...(limits.maxTokensFunction === 0 ? {} : { STATOR_MAX_TOKENS_DEFAULT: String(limits.maxTokensFunction) }),
      },
    });
    store.grantFront(this.function);
    notesTable?.grantNote(this.function);
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
  output(
    'OperatorPolicyArn',
    operator.managedPolicyArn,
    'Policy for operators who run stator keys and stator artifacts',
  );
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
