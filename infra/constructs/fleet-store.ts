import type { RemovalPolicy } from 'aws-cdk-lib';
import type { IGrantable } from 'aws-cdk-lib/aws-iam';
import { Construct } from 'constructs';
import { ArtifactsBucket } from './artifacts-bucket.ts';
import { FleetSecrets } from './fleet-secrets.ts';
import { DiscoveryTable, KeysTable, ResponsesTable, RouterStateTable } from './tables.ts';

export interface FleetStoreProps {
  /** What happens to it all when the stack is deleted. @default RemovalPolicy.DESTROY */
  readonly removalPolicy?: RemovalPolicy;
}

/** Everything of a fleet that lasts: its tables, its files, its secrets. */
export class FleetStore extends Construct {
  readonly discovery: DiscoveryTable;
  readonly responses: ResponsesTable;
  readonly routerState: RouterStateTable;
  readonly keys: KeysTable;
  readonly artifacts: ArtifactsBucket;
  readonly secrets: FleetSecrets;
  /** What every process of the fleet is told: where it finds the others. */
  readonly environment: Readonly<Record<'DYN_DISCOVERY_BACKEND' | 'STATOR_DISCOVERY_TABLE', string>>;

  constructor(scope: Construct, id: string, props: FleetStoreProps = {}) {
    super(scope, id);
    this.discovery = new DiscoveryTable(this, 'Discovery', props);
    this.responses = new ResponsesTable(this, 'Responses', props);
    this.routerState = new RouterStateTable(this, 'RouterState', props);
    this.keys = new KeysTable(this, 'Keys', props);
    this.artifacts = new ArtifactsBucket(this, 'Artifacts', props);
    this.secrets = new FleetSecrets(this, 'Secrets', props);
    this.environment = {
      DYN_DISCOVERY_BACKEND: 'dynamodb',
      STATOR_DISCOVERY_TABLE: this.discovery.tableName,
    };
  }

  /** What a container edge is told beside it. */
  edgeEnvironment(): Readonly<Record<string, string>> {
    return {
      STATOR_STATE_TABLE: this.routerState.tableName,
      STATOR_RESPONSES_TABLE: this.responses.tableName,
      STATOR_KEYS_TABLE: this.keys.tableName,
      STATOR_ARTIFACTS_BUCKET: this.artifacts.bucketName,
      STATOR_ARTIFACTS_CACHE_DIR: '/tmp/stator',
      STATOR_AUTH: 'on',
    };
  }

  /** Allows a function to look workers and keys up, to keep responses and to fetch models. */
  grantFront(grantee: IGrantable): void {
    this.discovery.grantLookUp(grantee);
    this.responses.grantKeep(grantee);
    this.keys.grantCheck(grantee);
    this.artifacts.grantRead(grantee);
  }

  /** Allows a container edge to do what a function may, to be found, and to route. */
  grantEdge(grantee: IGrantable): void {
    this.discovery.grantRegister(grantee);
    this.responses.grantKeep(grantee);
    this.keys.grantCheck(grantee);
    this.artifacts.grantRead(grantee);
    this.routerState.grantRoute(grantee);
  }

  /** Allows a router that serves no clients to be found, and to route. */
  grantRoute(grantee: IGrantable): void {
    this.discovery.grantRegister(grantee);
    this.routerState.grantRoute(grantee);
  }

  /** Allows a worker to be found. */
  grantWork(grantee: IGrantable): void {
    this.discovery.grantRegister(grantee);
  }

  /** Allows an operator to make keys and to push files of models. */
  grantOperate(grantee: IGrantable): void {
    this.keys.grantManage(grantee);
    this.artifacts.grantPush(grantee);
  }
}
