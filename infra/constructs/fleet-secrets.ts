import type { RemovalPolicy } from 'aws-cdk-lib';
import { Secret as ContainerSecret } from 'aws-cdk-lib/aws-ecs';
import type { IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { ISecret } from 'aws-cdk-lib/aws-secretsmanager';
import { Construct } from 'constructs';
import { allowReading, KeyedSecret } from './keyed-secret.ts';

/** Processes that have a user of their own at NATS. */
export const NATS_ROLES = ['worker', 'router'] as const;
type NatsRole = (typeof NATS_ROLES)[number];

interface FleetSecretsProps {
  readonly removalPolicy?: RemovalPolicy;
  /** Key that encrypts them. @default the account's own for secrets */
  readonly encryptionKey?: IKey | undefined;
}

/** Stands for the previous secret until there was one. */
const NONE = 'none';

/**
 * Secrets with which the processes of a fleet authenticate each other: the plane token, the secret of request ids, and
 * a user of NATS for each role. Secrets Manager makes them, and no person sees them. A process gets only what its role
 * needs. Each secret is JSON with the current value beside the previous one, so that a container can get both: a
 * previous version exists only after a rotation.
 */
export class FleetSecrets extends Construct {
  readonly planeToken: ISecret;
  readonly idSecret: ISecret;
  readonly #nats: Readonly<Record<NatsRole, ISecret>>;
  readonly #props: FleetSecretsProps;

  constructor(scope: Construct, id: string, props: FleetSecretsProps = {}) {
    super(scope, id);
    this.#props = props;
    const token = { previous: NONE };
    this.planeToken = this.#make('PlaneToken', 'STATOR_PLANE_TOKEN of the fleet', token, 'current');
    this.idSecret = this.#make('IdSecret', 'STATOR_ID_SECRET of all frontends', token, 'current');
    const user = (username: NatsRole) => ({
      username,
      previous_username: `${username}-before`,
      previous_password: NONE,
    });
    this.#nats = {
      worker: this.#make('NatsWorker', 'NATS user of workers', user('worker'), 'password'),
      router: this.#make('NatsRouter', 'NATS user of edges and routers', user('router'), 'password'),
    };
  }

  #make(name: string, description: string, fields: object, generated: string): ISecret {
    const { removalPolicy, encryptionKey } = this.#props;
    const secret = new KeyedSecret(this, name, {
      description: `Stator: ${description}`,
      ...(encryptionKey === undefined ? {} : { encryptionKey }),
      generateSecretString: {
        passwordLength: 64,
        excludePunctuation: true,
        secretStringTemplate: JSON.stringify(fields),
        generateStringKey: generated,
      },
    });
    if (removalPolicy !== undefined) secret.applyRemovalPolicy(removalPolicy);
    return secret as ISecret; // its optional properties are `T | undefined`
  }

  /** Secret with the user of a role at NATS. */
  natsUser(role: NatsRole): ISecret {
    return this.#nats[role];
  }

  /** The environment of a container that connects to NATS in `role` and to the request plane. */
  containerSecrets(role: NatsRole): Record<string, ContainerSecret> {
    return {
      ...rotated('STATOR_PLANE_TOKEN', this.planeToken),
      ...rotated('STATOR_ID_SECRET', role === 'router' ? this.idSecret : undefined),
      NATS_AUTH_USERNAME: ContainerSecret.fromSecretsManager(this.#nats[role], 'username'),
      NATS_AUTH_PASSWORD: ContainerSecret.fromSecretsManager(this.#nats[role], 'password'),
    };
  }

  /** The environment of a worker on a machine, which reads its secrets itself (`grantRead`). */
  workerEnvironment(): Record<'STATOR_PLANE_TOKEN_SECRET' | 'STATOR_NATS_SECRET', string> {
    return {
      STATOR_PLANE_TOKEN_SECRET: this.planeToken.secretArn,
      STATOR_NATS_SECRET: this.#nats.worker.secretArn,
    };
  }

  /** The environment of NATS: the users of each role, as `infra/nats-configuration.ts` reads them. */
  natsServerSecrets(): Record<string, ContainerSecret> {
    return Object.fromEntries(
      NATS_ROLES.flatMap((role) =>
        ['username', 'password', 'previous_username', 'previous_password'].map((field) => [
          `NATS_${role}_${field}`.toUpperCase(),
          ContainerSecret.fromSecretsManager(this.#nats[role], field),
        ]),
      ),
    );
  }

  /** Allows a worker or an edge that reads its secrets itself to read the texts of those of its role. */
  grantRead(role: NatsRole, grantee: IGrantable): void {
    allowReading(this.planeToken, grantee);
    allowReading(this.#nats[role], grantee);
    if (role === 'router') allowReading(this.idSecret, grantee);
  }
}

function rotated(variable: string, secret: ISecret | undefined): Record<string, ContainerSecret> {
  if (secret === undefined) return {};
  return {
    [variable]: ContainerSecret.fromSecretsManager(secret, 'current'),
    [`${variable}_PREVIOUS`]: ContainerSecret.fromSecretsManager(secret, 'previous'),
  };
}
