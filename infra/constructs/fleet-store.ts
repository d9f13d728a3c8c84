import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import { type IKey, Key } from 'aws-cdk-lib/aws-kms';
import { BlockPublicAccess, Bucket, BucketEncryption, ObjectOwnership } from 'aws-cdk-lib/aws-s3';
import { Construct } from 'constructs';
import type { Settings } from '../settings/index.ts';
import { FleetSecrets } from './fleet-secrets.ts';
import { KeyedTable, READ } from './keyed-table.ts';
import { KeysTable } from './keys-table.ts';
import { SecretsTable } from './secrets-table.ts';

interface ArtifactsBucketProps {
  /**
   * What happens to the bucket when the stack is deleted. With `DESTROY` it is emptied first, by a function that may do that
   * and nothing else. @default RemovalPolicy.DESTROY: what is in it comes from `stator artifacts push`
   */
  readonly removalPolicy?: RemovalPolicy;
  /** Key that encrypts it. @default one of S3's own */
  readonly encryptionKey?: IKey | undefined;
}

/** Files of models (tokenizer, template, configuration) by checksum: `STATOR_ARTIFACTS_BUCKET`. */
class ArtifactsBucket extends Construct {
  readonly bucketName: string;
  readonly #bucket: Bucket;
  readonly #key: IKey | undefined;

  constructor(scope: Construct, id: string, props: ArtifactsBucketProps = {}) {
    super(scope, id);
    const { removalPolicy = RemovalPolicy.DESTROY, encryptionKey } = props;
    this.#key = encryptionKey;
    this.#bucket = new Bucket(this, 'Bucket', {
      ...(encryptionKey === undefined
        ? { encryption: BucketEncryption.S3_MANAGED }
        : { encryption: BucketEncryption.KMS, encryptionKey, bucketKeyEnabled: true }),
      enforceSSL: true,
      blockPublicAccess: BlockPublicAccess.BLOCK_ALL,
      objectOwnership: ObjectOwnership.BUCKET_OWNER_ENFORCED,
      // Uploads that were begun and never finished are paid for, and are seen by nobody.
      lifecycleRules: [{ abortIncompleteMultipartUploadAfter: Duration.days(1) }],
      removalPolicy,
      autoDeleteObjects: removalPolicy === RemovalPolicy.DESTROY,
    });
    this.bucketName = this.#bucket.bucketName;
  }

  /** Allows a frontend or worker to read files whose checksum it knows; not to list them. */
  grantRead(grantee: IGrantable): Grant {
    this.#key?.grantDecrypt(grantee);
    return this.#grantOnFiles(grantee, ['s3:GetObject']);
  }

  /** Allows whoever runs `stator artifacts` to put files and to list them. */
  grantPush(grantee: IGrantable): Grant {
    this.#key?.grantEncryptDecrypt(grantee);
    const listing = { grantee, actions: ['s3:ListBucket'], resourceArns: [this.#bucket.bucketArn] };
    return this.#grantOnFiles(grantee, ['s3:GetObject', 's3:PutObject']).combine(Grant.addToPrincipal(listing));
  }

  #grantOnFiles(grantee: IGrantable, actions: string[]): Grant {
    return Grant.addToPrincipal({ grantee, actions, resourceArns: [this.#bucket.arnForObjects('*')] });
  }
}

/** Who serves what: leases with their records and loads, model cards, and the view of all of it. */
class DiscoveryTable extends KeyedTable {
  /** Allows a function to read the view of the fleet, and the leases where the view is too old. */
  grantLookUp(grantee: IGrantable): Grant {
    return this.allow(grantee, ...READ);
  }

  /** Allows a process that lasts to register, renew its lease, withdraw, gather the view, and clear what dead ones left. */
  grantRegister(grantee: IGrantable): Grant {
    return this.allow(grantee, ...READ, 'dynamodb:UpdateItem', 'dynamodb:DeleteItem');
  }
}

/** What routers share: leases and snapshot pointers (docs/router-state.md). */
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

/** The key that the settings name, for what `scope` keeps. */
export function keyOf(scope: Construct, { encryption: { keyArn } }: Pick<Settings, 'encryption'>): IKey | undefined {
  return keyArn === undefined ? undefined : Key.fromKeyArn(scope, 'Key', keyArn);
}

interface FleetStoreProps {
  /** What happens to it all when the stack is deleted. @default RemovalPolicy.DESTROY */
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
  /** What every process of the fleet is told: where it finds the others. */
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

  /** What a frontend is told beside it, be it a function or a container. */
  frontendEnvironment() {
    return {
      STATOR_SECRETS_TABLE: this.passedSecrets.tableName,
      STATOR_RESPONSES_TABLE: this.responses.tableName,
      STATOR_KEYS_TABLE: this.keys.tableName,
      STATOR_ARTIFACTS_BUCKET: this.artifacts.bucketName,
      STATOR_AUTH: 'on',
    };
  }

  /** What a container edge is told: it routes, too, and keeps files of models. */
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
    this.discovery.grantRegister(grantee);
    this.responses.grantKeep(grantee);
    this.keys.grantCheck(grantee);
    this.artifacts.grantRead(grantee);
    this.routerState.grantRoute(grantee);
    this.passedSecrets.grantPass(grantee);
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
