import { type RemovalPolicy, SecretValue } from 'aws-cdk-lib';
import { Secret as ContainerSecret } from 'aws-cdk-lib/aws-ecs';
import type { IGrantable } from 'aws-cdk-lib/aws-iam';
import { type ISecret, Secret } from 'aws-cdk-lib/aws-secretsmanager';
import { Construct } from 'constructs';

/** Processes that have a user of their own at NATS. */
export const NATS_ROLES = ['worker', 'router'] as const;
export type NatsRole = (typeof NATS_ROLES)[number];

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
