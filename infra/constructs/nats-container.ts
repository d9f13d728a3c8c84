import { Duration } from 'aws-cdk-lib';
import {
  type ContainerDefinition,
  ContainerDependencyCondition,
  ContainerImage,
  Secret as ContainerSecret,
  type FargateTaskDefinition,
} from 'aws-cdk-lib/aws-ecs';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import type { ISecret } from 'aws-cdk-lib/aws-secretsmanager';
import { NATS_PORTS, type NatsConfiguration, renderNatsHealth, renderNatsStart } from '../nats-configuration.ts';
import { createLogDriver } from './containers.ts';
import type { FleetSecrets } from './fleet-secrets.ts';

interface NatsContainerProps {
  readonly configuration: NatsConfiguration;
  readonly secrets: FleetSecrets;
  readonly logGroup: ILogGroup;
  /** Password of the servers among themselves. @default none: there is one */
  readonly routeSecret?: ISecret | undefined;
  /** Secret with `certificate`, `key` and `ca`. @default none: no TLS */
  readonly tlsSecret?: ISecret | undefined;
}

/**
 * Image by its digest, for both kinds of processor. It comes from Amazon's mirror, which does not limit the pulls of an
 * address as Docker Hub does.
 */
const IMAGE =
  'public.ecr.aws/docker/library/nats:2.11-alpine@sha256:e4bf19f15fd3218814a4e3c9e0064e1334bd8aa20d5984b9f1a0afd084f8cc00';
const DATA = '/data';

/**
 * Adds a NATS server with JetStream to a task. Its configuration is written at its start; passwords come as variables.
 */
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
    image: ContainerImage.fromRegistry(IMAGE),
    entryPoint: ['/bin/sh', '-c'],
    command: [start],
    user: '1000:1000',
    readonlyRootFilesystem: true,
    secrets: {
      ...secrets.natsServerSecrets(),
      ...(routeSecret === undefined ? {} : { NATS_ROUTE_PASSWORD: ContainerSecret.fromSecretsManager(routeSecret) }),
      ...(tlsSecret === undefined
        ? {}
        : Object.fromEntries(
            files.map((name) => [`NATS_${name.toUpperCase()}`, ContainerSecret.fromSecretsManager(tlsSecret, name)]),
          )),
    },
    portMappings: ports.map((containerPort) => ({ containerPort })),
    logging: createLogDriver(props.logGroup, 'nats'),
    stopTimeout: Duration.seconds(60),
    healthCheck: {
      command: ['CMD-SHELL', renderNatsHealth(configuration)],
      interval: Duration.seconds(10),
      startPeriod: Duration.seconds(60),
    },
  });
  const disk = addDiskContainer(task, props);
  for (const each of [container, disk])
    each.addMountPoints({ containerPath: DATA, readOnly: false, sourceVolume: 'nats' });
  container.addContainerDependencies({ container: disk, condition: ContainerDependencyCondition.SUCCESS });
  return container;
}

/** Gives the disk to the server's user and ends: Fargate gives a new volume to root, and the server is another user. */
function addDiskContainer(task: FargateTaskDefinition, { logGroup }: NatsContainerProps) {
  return task.addContainer('nats-disk', {
    image: ContainerImage.fromRegistry(IMAGE),
    entryPoint: ['/bin/chmod'],
    command: ['1777', DATA],
    user: '0:0',
    essential: false,
    readonlyRootFilesystem: true,
    logging: createLogDriver(logGroup, 'nats-disk'),
  });
}
