import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Resource {
  readonly Type: string;
  readonly Properties?: Readonly<Record<string, unknown>>;
  readonly DependsOn?: string | readonly string[];
}

interface Template {
  Resources: Record<string, Resource>;
  Outputs?: Record<string, unknown>;
  Rules?: unknown;
  Parameters?: Record<string, unknown>;
}

/** What moto's CloudFormation passes over without a word. Whatever refers to one fails, and is given a name that nobody has. */
const PASSED_OVER: ReadonlySet<string> = new Set([
  'AWS::ApiGateway::GatewayResponse',
  'AWS::ApiGateway::Stage',
  'AWS::ApplicationAutoScaling::ScalableTarget',
  'AWS::ApplicationAutoScaling::ScalingPolicy',
  'AWS::CloudWatch::Alarm',
  'AWS::CloudWatch::Dashboard',
  'AWS::CodeDeploy::Application',
  'AWS::CodeDeploy::DeploymentGroup',
  'AWS::Lambda::Alias',
  'AWS::Lambda::Url',
  'AWS::SecretsManager::Secret',
  'AWS::SecretsManager::SecretTargetAttachment',
  'AWS::ServiceDiscovery::PrivateDnsNamespace',
  'AWS::ServiceDiscovery::Service',
]);

/** Address of a secret that moto's CloudFormation does not make: the rehearsal makes it. */
const SECRET_ARN_PREFIX = 'arn:aws:secretsmanager:us-east-1:123456789012:secret:';

/**
 * Rewrites the templates of a `cdk.out` so that moto deploys them. What is left out is not rehearsed.
 * @returns what was left out
 */
export function localizeTemplates(directory: string): readonly Resource[] {
  const leftOut: Resource[] = [];
  for (const file of readdirSync(directory).filter((name) => name.endsWith('.template.json'))) {
    const path = join(directory, file);
    const template = JSON.parse(readFileSync(path, 'utf8')) as Template;
    leftOut.push(...localize(template));
    writeFileSync(path, JSON.stringify(template));
  }
  return leftOut;
}

/** Resources that run code of their own while they are made want Docker of moto. */
function isLeftOut(type: string): boolean {
  return PASSED_OVER.has(type) || type.startsWith('Custom::');
}

function localize(template: Template): readonly Resource[] {
  const gone = new Map(Object.entries(template.Resources).filter(([, { Type }]) => isLeftOut(Type)));
  const kept = Object.entries(template.Resources).filter(([id]) => !gone.has(id));
  const stubOf = (id: string): unknown => {
    const { Type: type, Properties: properties = {} } = gone.get(id) ?? { Type: '' };
    if (type === 'AWS::SecretsManager::Secret') return `${SECRET_ARN_PREFIX}${id}`;
    if (type === 'AWS::Lambda::Alias') return fix(properties.FunctionName); // rights are given on the function itself
    return `arn:aws:stub:us-east-1:123456789012:x/${id}`;
  };
  const fix = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(fix);
    if (typeof value !== 'object' || value === null) return value;
    const { Ref: ref, 'Fn::GetAtt': attribute } = value as { readonly Ref?: string; readonly 'Fn::GetAtt'?: string[] };
    if (ref !== undefined && gone.has(ref)) return stubOf(ref);
    if (attribute?.[0] !== undefined && gone.has(attribute[0])) return stubOf(attribute[0]);
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, fix(each)]));
  };
  template.Resources = Object.fromEntries(
    kept.map(([id, resource]) => {
      const DependsOn = [resource.DependsOn ?? []].flat().filter((on) => !gone.has(on));
      return [id, { ...resource, Properties: fix(resource.Properties ?? {}) as Record<string, unknown>, DependsOn }];
    }),
  );
  template.Outputs = fix(template.Outputs ?? {}) as Record<string, unknown>;
  delete template.Rules;
  delete template.Parameters?.BootstrapVersion; // moto forgets it, and then no stack can be updated
  return [...gone.values()];
}
