import { CfnOutput, type RemovalPolicy, Stack, type StackProps } from 'aws-cdk-lib';
import { ManagedPolicy } from 'aws-cdk-lib/aws-iam';
import type { Code } from 'aws-cdk-lib/aws-lambda';
import { Secret } from 'aws-cdk-lib/aws-secretsmanager';
import type { Construct } from 'constructs';
import { DiscoveryTable } from '../constructs/discovery-table.ts';
import { HttpFunction } from '../constructs/http-function.ts';
import { KeysTable } from '../constructs/keys-table.ts';
import { NatsService } from '../constructs/nats-service.ts';
import { Network } from '../constructs/network.ts';
import { ResponsesTable } from '../constructs/responses-table.ts';
import { RouterService } from '../constructs/router-service.ts';
import { RouterStateTable } from '../constructs/router-state-table.ts';
import { StreamingApi } from '../constructs/streaming-api.ts';

export interface ServingStackProps extends StackProps {
  /** The bundled HTTP function (`infra/bundle.ts`). */
  readonly httpFunctionCode: Code;
  /** What happens to the tables when the stack is deleted. @default RemovalPolicy.DESTROY */
  readonly removalPolicy?: RemovalPolicy;
  /** Router mode of the frontend. @default 'round-robin', 'kv' with resident routers */
  readonly routerMode?: string;
  /** NAT gateways for workers that need the internet. @default 0 */
  readonly natGateways?: number;
  /** Adds a NATS server for KV events, load and snapshots. Needs a NAT gateway. @default false: workers use zmq */
  readonly nats?: boolean;
  /** Image of `stator` for resident routers, which decide for the function. Needs NATS and mode kv. @default none */
  readonly routerImage?: string;
  /** Adds a URL of the function itself for callers that sign their requests. @default false */
  readonly functionUrl?: boolean;
}

/** Everything between a client and the workers: network, tables, the HTTP function and its streaming API. */
export class ServingStack extends Stack {
  constructor(scope: Construct, id: string, props: ServingStackProps) {
    super(scope, id, { description: 'Stator: serverless front for large language models', ...props });
    const tableProps = props.removalPolicy === undefined ? {} : { removalPolicy: props.removalPolicy };
    const network = new Network(this, 'Network', { natGateways: props.natGateways ?? 0 });
    const discovery = new DiscoveryTable(this, 'Discovery', tableProps);
    const responses = new ResponsesTable(this, 'Responses', tableProps);
    const routerState = new RouterStateTable(this, 'RouterState', tableProps);
    const keys = new KeysTable(this, 'Keys', tableProps);
    const idSecret = new Secret(this, 'IdSecret', {
      description: 'Stator: STATOR_ID_SECRET of all frontends',
      generateSecretString: { passwordLength: 64, excludePunctuation: true },
    });
    const nats = props.nats === true ? addNats(this, network, props.natGateways ?? 0) : undefined;
    const router = addRouter(this, props, { network, nats, discovery, routerState });
    const http = new HttpFunction(this, 'Http', {
      code: props.httpFunctionCode,
      network,
      environment: {
        DYN_DISCOVERY_BACKEND: 'dynamodb',
        STATOR_DISCOVERY_TABLE: discovery.tableName,
        STATOR_AUTH: 'on',
        STATOR_KEYS_TABLE: keys.tableName,
        // A reference that CloudFormation resolves: the template has no secret.
        STATOR_ID_SECRET: idSecret.secretValue.unsafeUnwrap(),
        STATOR_RESPONSES_TABLE: responses.tableName,
        DYN_REQUEST_PLANE: 'tcp',
        DYN_ROUTER_MODE: props.routerMode ?? (router === undefined ? 'round-robin' : 'kv'),
        ...(router === undefined ? {} : { STATOR_ROUTER_URL: router.url }),
        DYN_ENABLE_ANTHROPIC_API: 'true', // one base URL for the clients of both
        DYN_HTTP_BODY_LIMIT_MB: '6',
        STATOR_DEADLINE_MARGIN_SECS: '10',
        DYN_LOG: 'info',
        DYN_LOGGING_JSONL: 'true',
      },
    });
    discovery.grantLookUp(http);
    responses.grantKeep(http);
    keys.grantCheck(http);
    const workerPolicy = new ManagedPolicy(this, 'WorkerPolicy', { description: 'Stator: what a worker needs' });
    discovery.grantRegister(workerPolicy);
    const routerPolicy = new ManagedPolicy(this, 'RouterPolicy', {
      description: 'Stator: what a container edge needs',
    });
    discovery.grantRegister(routerPolicy);
    responses.grantKeep(routerPolicy);
    keys.grantCheck(routerPolicy);
    idSecret.grantRead(routerPolicy);
    const operatorPolicy = new ManagedPolicy(this, 'OperatorPolicy', {
      description: 'Stator: what stator keys needs',
    });
    keys.grantManage(operatorPolicy);
    routerState.grantRoute(routerPolicy);
    nats?.grantToken(workerPolicy);
    nats?.grantToken(routerPolicy);
    const api = new StreamingApi(this, 'Api', { handler: http.function });

    const output = (id: string, value: string, description: string): CfnOutput =>
      new CfnOutput(this, id, { value, description });
    output('BaseUrl', `${api.url}v1`, 'Base URL for OpenAI clients');
    output('KeysTableName', keys.tableName, 'STATOR_KEYS_TABLE of stator keys, which makes the first key');
    output('IdSecretArn', idSecret.secretArn, 'Secret with the STATOR_ID_SECRET of container edges');
    output('OperatorPolicyArn', operatorPolicy.managedPolicyArn, 'Policy for whoever runs stator keys');
    output('DiscoveryTableName', discovery.tableName, 'STATOR_DISCOVERY_TABLE of workers');
    output('RouterStateTableName', routerState.tableName, 'STATOR_STATE_TABLE of container edges');
    output('WorkerPolicyArn', workerPolicy.managedPolicyArn, 'Policy for the instance role of workers');
    output('RouterPolicyArn', routerPolicy.managedPolicyArn, 'Policy for the task role of container edges');
    output('EventPlane', nats === undefined ? 'zmq' : 'nats', 'DYN_EVENT_PLANE of workers and container edges');
    if (nats !== undefined) {
      output('NatsServer', nats.url, 'NATS_SERVER of workers and container edges');
      output('NatsTokenSecretArn', nats.token.secretArn, 'Secret with their NATS_AUTH_TOKEN');
    }
    if (router !== undefined) output('RouterUrl', router.url, 'STATOR_ROUTER_URL of whoever asks resident routers');
    output('WorkerSecurityGroupId', network.workerSecurityGroup.securityGroupId, 'Security group for workers');
    if (props.functionUrl === true)
      output('FunctionUrl', http.addStreamingUrl().url, 'For callers that sign with SigV4');
  }
}

function addNats(stack: Stack, network: Network, natGateways: number): NatsService {
  if (natGateways === 0) {
    throw new Error('nats needs natGateways of at least 1: the image of its server comes from the internet');
  }
  return new NatsService(stack, 'Nats', { network });
}

interface RouterParts {
  readonly network: Network;
  readonly nats: NatsService | undefined;
  readonly discovery: DiscoveryTable;
  readonly routerState: RouterStateTable;
}

/** Resident routers, where an image for them is named. */
function addRouter(
  stack: Stack,
  { routerImage: image, routerMode = 'kv' }: ServingStackProps,
  { network, nats, discovery, routerState }: RouterParts,
): RouterService | undefined {
  if (image === undefined) return undefined;
  if (nats === undefined) throw new Error('routerImage needs nats: resident routers follow the events there');
  if (routerMode !== 'kv') throw new Error(`routerImage needs routerMode kv, not ${routerMode}`);
  const router = new RouterService(stack, 'Router', {
    network,
    nats,
    image,
    environment: {
      DYN_DISCOVERY_BACKEND: 'dynamodb',
      STATOR_DISCOVERY_TABLE: discovery.tableName,
      STATOR_STATE_TABLE: routerState.tableName,
      DYN_REQUEST_PLANE: 'tcp',
      DYN_LOG: 'info',
      DYN_LOGGING_JSONL: 'true',
    },
  });
  discovery.grantRegister(router);
  routerState.grantRoute(router);
  return router;
}
