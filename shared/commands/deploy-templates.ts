import { type Fields, fieldsOf, listOf } from './aws-answers.ts';

/** The tasks of one service. */
export interface ServiceTasks {
  /** Name of its construct. */
  readonly name: string;
  /** Number of tasks that always run. */
  readonly count: number;
  /** Number of tasks that run under the highest load. */
  readonly countMax: number;
  readonly cores: number;
  readonly gb: number;
  readonly diskGb: number;
  /** Tasks that run during a release, as a multiple of `count`: 2 for twice as many. */
  readonly replacedShare: number;
  readonly hasPublicAddresses: boolean;
  readonly isBehindBalancer: boolean;
}

/** Disk that Fargate gives a task by default. */
export const DISK_GB_FREE = 20;

/** Returns all resources of templates, each with its logical id. */
export function resourcesOf(templates: readonly unknown[]): readonly (readonly [id: string, resource: Fields])[] {
  return templates.flatMap((template) =>
    Object.entries(fieldsOf(fieldsOf(template).Resources)).map(([id, resource]) => [id, fieldsOf(resource)] as const),
  );
}

/** Returns the properties of each resource of a type in templates. */
export function propertiesOf(templates: readonly unknown[], type: string): readonly Fields[] {
  return resourcesOf(templates).flatMap(([, { Type, Properties }]) => (Type === type ? [fieldsOf(Properties)] : []));
}

/** Returns the services of one template only, because two stacks may give theirs the same id. */
export function servicesOf(template: unknown): readonly ServiceTasks[] {
  const resources = new Map(resourcesOf([template]));
  return [...resources].flatMap(([id, { Type, Properties }]) => {
    if (Type !== 'AWS::ECS::Service') return [];
    const service = fieldsOf(Properties);
    const definition = fieldsOf(resources.get(String(fieldsOf(service.TaskDefinition).Ref))?.Properties);
    const network = fieldsOf(fieldsOf(service.NetworkConfiguration).AwsvpcConfiguration);
    return {
      name: id.replace(/Service[0-9A-F]{8}$/, ''),
      ...countsOf(id, service, template),
      cores: Number(definition.Cpu ?? 0) / 1024,
      gb: Number(definition.Memory ?? 0) / 1024,
      diskGb: Number(fieldsOf(definition.EphemeralStorage).SizeInGiB ?? DISK_GB_FREE),
      replacedShare: Number(fieldsOf(service.DeploymentConfiguration).MaximumPercent ?? 200) / 100,
      hasPublicAddresses: network.AssignPublicIp === 'ENABLED',
      isBehindBalancer: listOf(service.LoadBalancers).length > 0,
    };
  });
}

/** Returns the least and the most tasks. For a scaled service they are in its scaling and not in the service. */
function countsOf(id: string, { DesiredCount }: Fields, template: unknown): Pick<ServiceTasks, 'count' | 'countMax'> {
  const scaling = propertiesOf([template], 'AWS::ApplicationAutoScaling::ScalableTarget').find(({ ResourceId }) =>
    JSON.stringify(ResourceId).includes(`"${id}"`),
  );
  const count = Number(DesiredCount ?? scaling?.MinCapacity ?? 1);
  return { count, countMax: Math.max(count, Number(scaling?.MaxCapacity ?? 0)) };
}
