import type { RemovalPolicy } from 'aws-cdk-lib';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import { type IKey, Key } from 'aws-cdk-lib/aws-kms';
import { Construct } from 'constructs';
import type { Settings } from '../settings/index.ts';
import { ArtifactsBucket } from './artifacts-bucket.ts';
import { FleetSecrets } from './fleet-secrets.ts';
import { KeyedTable, READ } from './keyed-table.ts';
import { KeysTable } from './keys-table.ts';
import { SecretsTable } from './secrets-table.ts';

/** Who serves what: leases with their records and loads, model cards, and the view of all of it. */
class DiscoveryTable extends KeyedTable {
  /** Allows a function to read the view of the fleet, and the leases if the view is too old. */
  grantLookUp(grantee: IGrantable): Grant {
    return this.allow(grantee, ...READ);
  }

  /**
   * Allows a process that lasts to register, renew its lease, withdraw, gather the view, and clear what dead ones left.
   */
  grantRegister(grantee: IGrantable): Grant {
    return this.allow(grantee, ...READ, 'dynamodb:UpdateItem', 'dynamodb:DeleteItem');
  }

  /** Allows a planner to look workers up, and to ask in their leases that they take no new requests. */
  grantOrderDrain(grantee: IGrantable): void {
    this.grantLookUp(grantee);
    this.allowOn(grantee, 'v1/leases#*', 'dynamodb:UpdateItem');
  }
}

/** Table that routers share: leases and snapshot pointers (docs/router-state.md). */
class RouterStateTable extends KeyedTable {
  /** Allows a router to hold the leases under which it writes for others, and to move and drop snapshot pointers. */
  grantRoute(grantee: IGrantable): Grant {
    return this.allow(grantee, 'dynamodb:GetItem', 'dynamodb:UpdateItem', 'dynamodb:DeleteItem');
  }
}

/** Answers of the Responses API, for `previous_response_id` and for reading them again, until their time is over. */
class ResponsesTable extends KeyedTable {
  /** Allows a frontend to keep, read and forget responses. */
  grantKeep(grantee: IGrantable): Grant {
    return this.allow(grantee, 'dynamodb:GetItem', 'dynamodb:Query', 'dynamodb:PutItem', 'dynamodb:DeleteItem');
  }
}

/** Returns the key that the settings name for the data of `scope`, or undefined if they name none. */
export function keyOf(scope: Construct, { encryption: { keyArn } }: Pick<Settings, 'encryption'>): IKey | undefined {
  return keyArn === undefined ? undefined : Key.fromKeyArn(scope, 'Key', keyArn);
}

interface FleetStoreProps {
  /** Fate of the tables and buckets when the stack is deleted. @default RemovalPolicy.DESTROY */
  readonly removalPolicy?: RemovalPolicy;
  /** Key that encrypts it all. @default the account's own */
  readonly encryptionKey?: IKey | undefined;
}

/** Everything of a fleet that lasts: its tables, its files, its secrets. */
export class FleetStore extends Construct {
  readonly discovery: DiscoveryTable;
  readonly responses: ResponsesTable;
  readonly routerState: RouterStateTable;
  readonly keys: KeysTable;
  readonly artifacts: ArtifactsBucket;
  readonly passedSecrets: SecretsTable;
  readonly secrets: FleetSecrets;
  /** Environment of every process of the fleet, by which it finds the others. */
  readonly environment: Readonly<Record<'DYN_DISCOVERY_BACKEND' | 'STATOR_DISCOVERY_TABLE', string>>;

  constructor(scope: Construct, id: string, props: FleetStoreProps = {}) {
    super(scope, id);
    this.discovery = new DiscoveryTable(this, 'Discovery', props);
    this.responses = new ResponsesTable(this, 'Responses', props);
    this.routerState = new RouterStateTable(this, 'RouterState', props);
    this.keys = new KeysTable(this, 'ApiKeys', props);
    this.artifacts = new ArtifactsBucket(this, 'Artifacts', props);
    this.secrets = new FleetSecrets(this, 'Secrets', props);
    this.passedSecrets = new SecretsTable(this, 'PassedSecrets', { encryptionKey: props.encryptionKey });
    this.environment = {
      DYN_DISCOVERY_BACKEND: 'dynamodb',
      STATOR_DISCOVERY_TABLE: this.discovery.tableName,
    };
  }

  /** Environment of a frontend beside that, in a function or a container. */
  frontendEnvironment() {
    return {
      STATOR_SECRETS_TABLE: this.passedSecrets.tableName,
      STATOR_RESPONSES_TABLE: this.responses.tableName,
      STATOR_KEYS_TABLE: this.keys.tableName,
      STATOR_ARTIFACTS_BUCKET: this.artifacts.bucketName,
      STATOR_AUTH: 'on',
    };
  }

  /** Environment of a container edge, which also routes and keeps files of models. */
  edgeEnvironment() {
    return {
      ...this.frontendEnvironment(),
      STATOR_STATE_TABLE: this.routerState.tableName,
      STATOR_ARTIFACTS_CACHE_DIR: '/tmp/stator',
    };
  }

  /** Allows a function to look workers and keys up, to keep responses and to fetch models. */
  grantFront(grantee: IGrantable): void {
    this.discovery.grantLookUp(grantee);
    this.responses.grantKeep(grantee);
    this.keys.grantCheck(grantee);
    this.artifacts.grantRead(grantee);
    this.passedSecrets.grantReceive(grantee);
  }

  /** Allows a container edge to do what a function may, to be found, and to route. */
  grantEdge(grantee: IGrantable): void {
    this.grantRoute(grantee);
    this.responses.grantKeep(grantee);
    this.keys.grantCheck(grantee);
    this.artifacts.grantRead(grantee);
  }

  /** Allows a router that serves no clients to be found, to route, and to pass its secrets to functions. */
  grantRoute(grantee: IGrantable): void {
    this.passedSecrets.grantPass(grantee);
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
