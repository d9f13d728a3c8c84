import type { Code, FunctionUrl } from 'aws-cdk-lib/aws-lambda';
import { CfnWebACL, CfnWebACLAssociation } from 'aws-cdk-lib/aws-wafv2';
import { Construct } from 'constructs';
import { namespacesOf, type Settings } from '../settings.ts';
import { FleetSecrets } from './fleet-secrets.ts';
import type { FleetStore } from './fleet-store.ts';
import { HttpFunction } from './http-function.ts';
import type { Network } from './network.ts';
import { PublicName } from './public-name.ts';
import { StreamingApi } from './streaming-api.ts';

export interface PublicFrontProps {
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
    const { edges, limits, keys, domain } = settings;
    this.function = new HttpFunction(this, 'Http', {
      code,
      network,
      memorySizeMb: edges.function.memoryMb,
      logRetentionDays: settings.logRetentionDays,
      ...(edges.function.concurrencyMax === undefined ? {} : { concurrencyMax: edges.function.concurrencyMax }),
      environment: {
        ...store.environment,
        STATOR_AUTH: 'on',
        STATOR_KEYS_TABLE: store.keys.tableName,
        STATOR_KEY_CACHE_SECS: String(keys.cacheSecs),
        STATOR_METRICS_AUTH: String(keys.metrics),
        STATOR_DOCS_AUTH: String(keys.docs),
        STATOR_ID_SECRET: FleetSecrets.referenceTo(store.secrets.idSecret),
        STATOR_ARTIFACTS_BUCKET: store.artifacts.bucketName,
        STATOR_RESPONSES_TABLE: store.responses.tableName,
        DYN_REQUEST_PLANE: 'tcp',
        DYN_ROUTER_MODE: 'kv',
        DYN_ENABLE_ANTHROPIC_API: 'true', // one base URL for the clients of both
        DYN_HTTP_BODY_LIMIT_MB: '6',
        // Nothing between a client and the function may take a stream that waits for a dead one.
        DYN_HTTP_SSE_KEEP_ALIVE_INTERVAL_MS: '10000',
        STATOR_DEADLINE_MARGIN_SECS: '10',
        DYN_LOG: 'info',
        DYN_LOGGING_JSONL: 'true',
        ...(limits.holdSecs === 0 ? {} : { STATOR_HOLD_TIMEOUT: String(limits.holdSecs) }),
        ...namespacesOf(settings),
        // A function that cannot reach Secrets Manager has the token itself, encrypted with its other variables.
        ...(network.reachesAws
          ? { STATOR_PLANE_TOKEN_SECRET: store.secrets.planeToken.secretArn }
          : { STATOR_PLANE_TOKEN: FleetSecrets.referenceTo(store.secrets.planeToken) }),
      },
    });
    store.grantFront(this.function);
    if (network.reachesAws) store.secrets.planeToken.grantRead(this.function);
    this.api = new StreamingApi(this, 'Api', {
      handler: this.function.live,
      requestsPerSecond: limits.requestsPerSecond,
      burst: limits.burst,
    });
    if (limits.requestsPerAddress !== undefined) this.#guard(limits.requestsPerAddress);
    this.url = edges.function.url ? this.function.addStreamingUrl() : undefined;
    this.name = domain === undefined ? undefined : new PublicName(this, 'Name', { ...domain, api: this.api.api });
    this.baseUrl = domain === undefined ? `${this.api.url}v1` : `https://${domain.name}/v1`;
  }

  /** Blocks addresses that ask too often, and nothing else: prompts look like any attack that a rule of thumb knows. */
  #guard(requestsPerAddress: number): void {
    const metrics = { cloudWatchMetricsEnabled: true, sampledRequestsEnabled: false };
    const acl = new CfnWebACL(this, 'Firewall', {
      scope: 'REGIONAL',
      defaultAction: { allow: {} },
      visibilityConfig: { ...metrics, metricName: 'stator' },
      rules: [
        {
          name: 'requests-per-address',
          priority: 0,
          action: { block: {} },
          statement: {
            rateBasedStatement: { aggregateKeyType: 'IP', limit: requestsPerAddress, evaluationWindowSec: 300 },
          },
          visibilityConfig: { ...metrics, metricName: 'requests-per-address' },
        },
      ],
    });
    new CfnWebACLAssociation(this, 'Guarding', {
      resourceArn: this.api.api.deploymentStage.stageArn,
      webAclArn: acl.attrArn,
    });
  }
}
