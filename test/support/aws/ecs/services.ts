import type { Resource } from '../localize.ts';
import { type ContainerPlan, readContainer } from './containers.ts';
import { referencesIn, type Templates, type TemplateValues } from './values.ts';

/** A task definition. */
export interface TaskPlan {
  /** `STACK/ID` of the task definition. */
  readonly definition: string;
  readonly containers: readonly ContainerPlan[];
}

/** Registration of a service with a load balancer. */
export interface TargetPlan {
  /** `STACK/ID` of the target group. */
  readonly group: string;
  readonly container: string;
  readonly port: number;
}

/** A service as its template describes it. */
export interface ServicePlan {
  /** `STACK/ID`. */
  readonly id: string;
  readonly task: TaskPlan;
  /** Desired number of tasks: the number of the service, or the minimum of its scaling. */
  readonly desiredCount: number;
  readonly minimumHealthyPercent: number;
  readonly maximumPercent: number;
  /** Whether a deployment stops after too many failed tasks. */
  readonly hasCircuitBreaker: boolean;
  /** Zones in which its tasks may run. */
  readonly zones: readonly string[];
  /** Host names of its tasks. */
  readonly hostNames: readonly string[];
  readonly targets: readonly TargetPlan[];
  /** Ids of the services that must exist before this one. */
  readonly after: readonly string[];
}

interface ServiceProperties {
  readonly TaskDefinition: string;
  readonly DesiredCount?: number;
  readonly DeploymentConfiguration?: {
    readonly MinimumHealthyPercent?: number;
    readonly MaximumPercent?: number;
    readonly DeploymentCircuitBreaker?: { readonly Enable: boolean };
  };
  readonly NetworkConfiguration: { readonly AwsvpcConfiguration: { readonly Subnets: readonly string[] } };
  readonly ServiceRegistries?: readonly { readonly RegistryArn: string }[];
  readonly LoadBalancers?: readonly {
    readonly ContainerName: string;
    readonly ContainerPort: number;
    readonly TargetGroupArn: string;
  }[];
}

/** Reads all services of a deployment, stack by stack. */
export function readServices(templates: Templates, values: TemplateValues): readonly ServicePlan[] {
  const known = new Names(templates, values);
  return Object.entries(templates).flatMap(([stack, { Resources }]) =>
    Object.entries(Resources)
      .filter(([, { Type }]) => Type === 'AWS::ECS::Service')
      .map(([id, resource]) => readService(stack, id, resource, Resources, values, known)),
  );
}

function readService(
  stack: string,
  id: string,
  resource: Resource,
  resources: Readonly<Record<string, Resource>>,
  values: TemplateValues,
  known: Names,
): ServicePlan {
  const given = values.resolve(stack, resource.Properties) as unknown as ServiceProperties;
  const {
    MinimumHealthyPercent = 100,
    MaximumPercent = 200,
    DeploymentCircuitBreaker,
  } = given.DeploymentConfiguration ?? {};
  const [taskId = ''] = referencesIn(resource.Properties?.TaskDefinition);
  const containers = values.resolve(stack, resources[taskId]?.Properties?.ContainerDefinitions) as object[];
  const { Subnets } = given.NetworkConfiguration.AwsvpcConfiguration;
  return {
    id: `${stack}/${id}`,
    task: { definition: `${stack}/${taskId}`, containers: containers.map(readContainer) },
    desiredCount: given.DesiredCount ?? known.leastOf(stack, id) ?? 1,
    minimumHealthyPercent: MinimumHealthyPercent,
    maximumPercent: MaximumPercent,
    hasCircuitBreaker: DeploymentCircuitBreaker?.Enable === true,
    zones: [...new Set(Subnets.map((subnet) => known.zoneOf(subnet)))],
    hostNames: (given.ServiceRegistries ?? []).map(({ RegistryArn }) => known.hostNameOf(RegistryArn)),
    targets: (given.LoadBalancers ?? []).map(({ ContainerName, ContainerPort, TargetGroupArn }) => ({
      group: known.targetGroupOf(TargetGroupArn),
      container: ContainerName,
      port: ContainerPort,
    })),
    after: servicesBefore(id, resources).map((before) => `${stack}/${before}`),
  };
}

/**
 * Returns the services of the same stack that CloudFormation creates before `id`, directly or through other resources.
 */
function servicesBefore(id: string, resources: Readonly<Record<string, Resource>>): readonly string[] {
  const seen = new Set<string>();
  const visit = (at: string): void => {
    const { Properties, DependsOn = [] } = resources[at] ?? { Type: '' };
    for (const next of [...[DependsOn].flat(), ...referencesIn(Properties)]) {
      if (resources[next] === undefined || seen.has(next)) continue;
      seen.add(next);
      visit(next);
    }
  };
  visit(id);
  if (seen.has(id)) throw new Error(`${id} waits for itself`);
  return [...seen].filter((at) => resources[at]?.Type === 'AWS::ECS::Service');
}

/** Names of resources to which services refer. */
class Names {
  readonly #resources: readonly { readonly stack: string; readonly id: string; readonly resource: Resource }[];
  readonly #values: TemplateValues;

  constructor(templates: Templates, values: TemplateValues) {
    this.#values = values;
    this.#resources = Object.entries(templates).flatMap(([stack, { Resources }]) =>
      Object.entries(Resources).map(([id, resource]) => ({ stack, id, resource })),
    );
  }

  zoneOf(subnet: string): string {
    const { stack, resource } = this.#find('AWS::EC2::Subnet', subnet, (id) => ({ Ref: id }));
    return this.#values.text(stack, resource.Properties?.AvailabilityZone);
  }

  hostNameOf(registryArn: string): string {
    const service = this.#find('AWS::ServiceDiscovery::Service', registryArn, arnOf);
    const { Name, NamespaceId, DnsConfig } = this.#values.resolve(service.stack, service.resource.Properties) as {
      readonly Name: string;
      readonly NamespaceId?: string;
      readonly DnsConfig?: { readonly NamespaceId?: string };
    };
    const type = 'AWS::ServiceDiscovery::PrivateDnsNamespace';
    const space = NamespaceId ?? DnsConfig?.NamespaceId ?? '';
    const { stack, resource } = this.#find(type, space, (id) => ({ 'Fn::GetAtt': [id, 'Id'] }));
    return `${Name}.${this.#values.text(stack, resource.Properties?.Name)}`;
  }

  targetGroupOf(arn: string): string {
    const { stack, id } = this.#find('AWS::ElasticLoadBalancingV2::TargetGroup', arn, (id) => ({ Ref: id }));
    return `${stack}/${id}`;
  }

  /** Returns the smallest number of tasks that the scaling of a service keeps, or undefined if it has no scaling. */
  leastOf(stack: string, service: string): number | undefined {
    const found = this.#resources.find(
      ({ resource: { Type, Properties }, ...each }) =>
        Type === 'AWS::ApplicationAutoScaling::ScalableTarget' &&
        each.stack === stack &&
        referencesIn(Properties?.ResourceId).includes(service),
    );
    return found === undefined ? undefined : Number(found.resource.Properties?.MinCapacity);
  }

  #find(type: string, name: string, naming: (id: string) => object) {
    const found = this.#resources.find(
      ({ stack, id, resource }) => resource.Type === type && this.#values.text(stack, naming(id)) === name,
    );
    if (found === undefined) throw new Error(`no ${type} is called ${name}`);
    return found;
  }
}

const arnOf = (id: string): object => ({ 'Fn::GetAtt': [id, 'Arn'] });
