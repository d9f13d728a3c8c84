import { Duration } from 'aws-cdk-lib';
import {
  type ContainerDefinition,
  ContainerImage,
  Secret as ContainerSecret,
  type FargateTaskDefinition,
  LogDrivers,
} from 'aws-cdk-lib/aws-ecs';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import type { ISecret } from 'aws-cdk-lib/aws-secretsmanager';
import { NATS_PORTS, type NatsConfiguration, renderNatsStart } from '../nats-configuration.ts';
import { type FleetSecrets, NATS_ROLES } from './fleet-secrets.ts';

export interface NatsContainerProps {
  readonly configuration: NatsConfiguration;
  readonly secrets: FleetSecrets;
  readonly logGroup: ILogGroup;
  /** Image with `nats-server` and a shell. @default the official one */
  readonly image?: string;
  /** Password of the servers among themselves. @default none: there is one */
  readonly routeSecret?: ISecret;
  /** Secret with `certificate`, `key` and `ca`. @default none: no TLS */
  readonly tlsSecret?: ISecret | undefined;
}

/** By digest, for both kinds of processor. */
const IMAGE = 'nats:2.11-alpine@sha256:e4bf19f15fd3218814a4e3c9e0064e1334bd8aa20d5984b9f1a0afd084f8cc00';
const DATA = '/data';

/** Adds a NATS server with JetStream to a task. Its configuration is written at its start; passwords come as variables. */
export function addNatsContainer(task: FargateTaskDefinition, props: NatsContainerProps): ContainerDefinition {
  const { configuration, secrets, routeSecret, tlsSecret } = props;
  const files = tlsSecret === undefined ? [] : ['certificate', 'key', 'ca'];
  const start = renderNatsStart({ ...configuration, folder: DATA, hasTls: tlsSecret !== undefined }, files);
  const ports = [
    NATS_PORTS.clients,
    ...(configuration.hasWebSocket ? [NATS_PORTS.webSocket] : []),
    ...(configuration.cluster === undefined ? [] : [NATS_PORTS.cluster]),
  ];
  task.addVolume({ name: 'nats' });
  const container = task.addContainer('nats', {
    image: ContainerImage.fromRegistry(props.image ?? IMAGE),
    entryPoint: ['/bin/sh', '-c'],
    command: [start],
    readonlyRootFilesystem: true,
    secrets: {
      ...Object.fromEntries(
        NATS_ROLES.map((role) => [
          `NATS_${role.toUpperCase()}_PASSWORD`,
          ContainerSecret.fromSecretsManager(secrets.natsUser(role), 'password'),
        ]),
      ),
      ...(routeSecret === undefined ? {} : { NATS_ROUTE_PASSWORD: ContainerSecret.fromSecretsManager(routeSecret) }),
      ...(tlsSecret === undefined
        ? {}
        : Object.fromEntries(
            files.map((name) => [`NATS_${name.toUpperCase()}`, ContainerSecret.fromSecretsManager(tlsSecret, name)]),
          )),
    },
    portMappings: ports.map((containerPort) => ({ containerPort })),
    logging: LogDrivers.awsLogs({ logGroup: props.logGroup, streamPrefix: 'nats' }),
    stopTimeout: Duration.seconds(60),
    healthCheck: {
      command: ['CMD-SHELL', `wget -q -O /dev/null http://127.0.0.1:${NATS_PORTS.monitor}/healthz || exit 1`],
      interval: Duration.seconds(10),
      startPeriod: Duration.seconds(60),
    },
  });
  container.addMountPoints({ containerPath: DATA, readOnly: false, sourceVolume: 'nats' });
  return container;
}
