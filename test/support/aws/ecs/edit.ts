import type { Resource, Template } from '../localize.ts';
import { referencesIn, type Templates } from './values.ts';

type Container = Record<string, unknown> & { readonly Name: string };

/** Returns the templates with `edit` applied to every container definition of that name: a release, or a mistake. */
export function withContainer(
  templates: Templates,
  name: string,
  edit: (container: Container) => Container,
): Templates {
  return mapResources(templates, (resource) => {
    if (resource.Type !== 'AWS::ECS::TaskDefinition') return resource;
    const definitions = resource.Properties?.ContainerDefinitions as readonly Container[];
    const edited = definitions.map((each) => (each.Name === name ? edit(each) : each));
    return { ...resource, Properties: { ...resource.Properties, ContainerDefinitions: edited } };
  });
}

/** Returns the templates with a variable in that container that names the release. */
export function withRelease(templates: Templates, container: string, release: string): Templates {
  return withContainer(templates, container, ({ Environment = [], ...rest }) => ({
    ...rest,
    Environment: [...(Environment as object[]), { Name: 'RELEASE', Value: release }],
  }));
}

/** Returns the templates with a health check of that container that runs `command` in a shell. */
export function withHealthCheck(templates: Templates, container: string, command: string): Templates {
  return withContainer(templates, container, ({ HealthCheck, ...rest }) => ({
    ...rest,
    HealthCheck: { ...(HealthCheck as object), Command: ['CMD-SHELL', command] },
  }));
}

/** Returns the templates with only the services whose tasks have a container of that name. */
export function onlyServicesOf(templates: Templates, container: string): Templates {
  return mapTemplates(templates, ({ Resources, ...rest }) => {
    const has = (resource: Resource): boolean => {
      const [task = ''] = referencesIn(resource.Properties?.TaskDefinition);
      const definitions = Resources[task]?.Properties?.ContainerDefinitions as readonly Container[];
      return definitions.some(({ Name }) => Name === container);
    };
    const kept = Object.entries(Resources).filter(([, each]) => each.Type !== 'AWS::ECS::Service' || has(each));
    return { ...rest, Resources: Object.fromEntries(kept) };
  });
}

function mapResources(templates: Templates, map: (resource: Resource) => Resource): Templates {
  return mapTemplates(templates, ({ Resources, ...rest }) => ({
    ...rest,
    Resources: Object.fromEntries(Object.entries(Resources).map(([id, resource]) => [id, map(resource)])),
  }));
}

function mapTemplates(templates: Templates, map: (template: Template) => Template): Templates {
  return Object.fromEntries(Object.entries(templates).map(([stack, template]) => [stack, map(template)]));
}
