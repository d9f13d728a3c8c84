import { Duration, RemovalPolicy, SecretValue } from 'aws-cdk-lib';
import { AttributeType, BillingMode, StreamViewType, Table, TableEncryption } from 'aws-cdk-lib/aws-dynamodb';
import { Secret as ContainerSecret } from 'aws-cdk-lib/aws-ecs';
import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import { BlockPublicAccess, Bucket, BucketEncryption, ObjectOwnership } from 'aws-cdk-lib/aws-s3';
import { type ISecret, Secret } from 'aws-cdk-lib/aws-secretsmanager';
import { Construct } from 'constructs';

/** Processes that have a user of their own at NATS. */
export const NATS_ROLES = ['worker', 'router'] as const;
type NatsRole = (typeof NATS_ROLES)[number];

/**
 * What the processes of a fleet prove to each other, made by Secrets Manager and seen by nobody: the plane token, the secret of
 * request ids, and a password of NATS for each role. A process gets what its role needs and no more.
 */
export class FleetSecrets extends Construct {
  readonly planeToken: ISecret;
  readonly idSecret: ISecret;
  readonly #nats: Readonly<Record<NatsRole, ISecret>>;

  constructor(scope: Construct, id: string, props: { readonly removalPolicy?: RemovalPolicy } = {}) {
    super(scope, id);
    const make = (name: string, description: string, field?: { readonly username: string }): ISecret => {
      const secret = new Secret(this, name, {
        description: `Stator: ${description}`,
        generateSecretString: {
          passwordLength: 64,
          excludePunctuation: true,
          ...(field === undefined
            ? {}
            : { secretStringTemplate: JSON.stringify(field), generateStringKey: 'password' }),
        },
      });
      if (props.removalPolicy !== undefined) secret.applyRemovalPolicy(props.removalPolicy);
      return secret as ISecret; // its optional properties are `T | undefined`
    };
    this.planeToken = make('PlaneToken', 'STATOR_PLANE_TOKEN of the fleet');
    this.idSecret = make('IdSecret', 'STATOR_ID_SECRET of all frontends');
    this.#nats = {
      worker: make('NatsWorker', 'NATS user of workers', { username: 'worker' }),
      router: make('NatsRouter', 'NATS user of edges and routers', { username: 'router' }),
    };
  }

  /** Secret with `username` and `password` of a role at NATS. */
  natsUser(role: NatsRole): ISecret {
    return this.#nats[role];
  }

  /** The environment of a container that connects to NATS in `role` and to the request plane. */
  containerSecrets(role: NatsRole): Record<string, ContainerSecret> {
    return {
      STATOR_PLANE_TOKEN: ContainerSecret.fromSecretsManager(this.planeToken),
      NATS_AUTH_PASSWORD: ContainerSecret.fromSecretsManager(this.#nats[role], 'password'),
      ...(role === 'router' ? { STATOR_ID_SECRET: ContainerSecret.fromSecretsManager(this.idSecret) } : {}),
    };
  }

  /** Allows a worker or an edge that reads its secrets itself to read those of its role. */
  grantRead(role: NatsRole, grantee: IGrantable): void {
    this.planeToken.grantRead(grantee);
    this.#nats[role].grantRead(grantee);
    if (role === 'router') this.idSecret.grantRead(grantee);
  }

  /** A reference that CloudFormation resolves when it deploys: the template has no secret. */
  static referenceTo(secret: ISecret): string {
    return SecretValue.secretsManager(secret.secretArn).unsafeUnwrap();
  }
}

interface ArtifactsBucketProps {
  /**
   * What happens to the bucket when the stack is deleted. With `DESTROY` it is emptied first, by a function that may do that
   * and nothing else. @default RemovalPolicy.DESTROY: what is in it comes from `stator artifacts push`
   */
  readonly removalPolicy?: RemovalPolicy;
}

/** Files of models (tokenizer, template, configuration) by checksum: `STATOR_ARTIFACTS_BUCKET`. */
class ArtifactsBucket extends Construct {
  readonly bucketName: string;
  readonly #bucket: Bucket;

  constructor(scope: Construct, id: string, props: ArtifactsBucketProps = {}) {
    super(scope, id);
    const { removalPolicy = RemovalPolicy.DESTROY } = props;
    this.#bucket = new Bucket(this, 'Bucket', {
      encryption: BucketEncryption.S3_MANAGED,
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
    return this.#grantOnFiles(grantee, ['s3:GetObject']);
  }

  /** Allows whoever runs `stator artifacts` to put files and to list them. */
  grantPush(grantee: IGrantable): Grant {
    const listing = { grantee, actions: ['s3:ListBucket'], resourceArns: [this.#bucket.bucketArn] };
    return this.#grantOnFiles(grantee, ['s3:GetObject', 's3:PutObject']).combine(Grant.addToPrincipal(listing));
  }

  #grantOnFiles(grantee: IGrantable, actions: string[]): Grant {
    return Grant.addToPrincipal({ grantee, actions, resourceArns: [this.#bucket.arnForObjects('*')] });
  }
}

const READ = ['dynamodb:GetItem', 'dynamodb:BatchGetItem', 'dynamodb:Query'] as const;

/** What the tables of this product can be given from outside. */
interface KeyedTableProps {
  /**
   * What happens to the table when the stack is deleted. What stays is also protected against deletion by hand.
   * @default RemovalPolicy.DESTROY: workers and routers write their state anew
   */
  readonly removalPolicy?: RemovalPolicy;
}

/**
 * A table in the shape that all state of this product has: string keys `pk` and `sk`, paid by use, encrypted with a key of
 * the account, restorable to any second, expired items collected by `ttl` (Unix seconds; readers never rely on it).
 */
abstract class KeyedTable extends Construct {
  readonly tableName: string;
  protected readonly table: Table;

  constructor(scope: Construct, id: string, props: KeyedTableProps = {}, stream?: StreamViewType) {
    super(scope, id);
    const removalPolicy = props.removalPolicy ?? RemovalPolicy.DESTROY;
    this.table = new Table(this, 'Table', {
      partitionKey: { name: 'pk', type: AttributeType.STRING },
      sortKey: { name: 'sk', type: AttributeType.STRING },
      billingMode: BillingMode.PAY_PER_REQUEST,
      encryption: TableEncryption.AWS_MANAGED,
      pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
      timeToLiveAttribute: 'ttl',
      removalPolicy,
      deletionProtection: removalPolicy !== RemovalPolicy.DESTROY,
      ...(stream === undefined ? {} : { stream }),
    });
    this.tableName = this.table.tableName;
  }
}

/** Who serves what: leases with their records and loads, model cards, and the view of all of it. Its stream tells long-running processes of changes. */
class DiscoveryTable extends KeyedTable {
  constructor(scope: Construct, id: string, props?: KeyedTableProps) {
    super(scope, id, props, StreamViewType.NEW_AND_OLD_IMAGES);
  }

  /** Allows a function to read the view of the fleet, and the leases where the view is too old. */
  grantLookUp(grantee: IGrantable): Grant {
    return this.table.grant(grantee, ...READ);
  }

  /** Allows a process that lasts to register, renew its lease, withdraw, gather the view, and clear what dead ones left. */
  grantRegister(grantee: IGrantable): Grant {
    return this.table.grant(grantee, ...READ, 'dynamodb:UpdateItem', 'dynamodb:DeleteItem');
  }
}

/** What routers share: leases and snapshot pointers (docs/router-state.md). */
class RouterStateTable extends KeyedTable {
  /** Allows a router to hold the leases under which it writes for others, and to move and drop snapshot pointers. */
  grantRoute(grantee: IGrantable): Grant {
    return this.table.grant(grantee, 'dynamodb:GetItem', 'dynamodb:UpdateItem', 'dynamodb:DeleteItem');
  }
}

/** Answers of the Responses API, for `previous_response_id` and for reading them again, until their time is over. */
class ResponsesTable extends KeyedTable {
  /** Allows a frontend to keep, read and forget responses. */
  grantKeep(grantee: IGrantable): Grant {
    return this.table.grant(grantee, 'dynamodb:GetItem', 'dynamodb:Query', 'dynamodb:PutItem', 'dynamodb:DeleteItem');
  }
}

/** API keys, by their digests: read by frontends, written by whoever runs `stator keys`. */
class KeysTable extends KeyedTable {
  /** Allows a frontend to look a key up by its id; not to list them, and not to change one. */
  grantCheck(grantee: IGrantable): Grant {
    return this.table.grant(grantee, 'dynamodb:GetItem');
  }

  /** Allows an operator to make, list, change and delete keys. */
  grantManage(grantee: IGrantable): Grant {
    const rights = ['GetItem', 'Scan', 'UpdateItem', 'DeleteItem'].map((right) => `dynamodb:${right}`);
    return this.table.grant(grantee, ...rights);
  }
}

interface FleetStoreProps {
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
