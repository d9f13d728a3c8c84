import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Resource {
  readonly Type: string;
  readonly Properties?: Readonly<Record<string, unknown>>;
  readonly DependsOn?: string | readonly string[];
  readonly DeletionPolicy?: string;
}

export interface Template {
  Resources: Record<string, Resource>;
  Outputs?: Record<string, object>;
  Rules?: unknown;
  Parameters?: Record<string, unknown>;
}

interface Artifact {
  readonly type: string;
  readonly displayName?: string;
  readonly properties?: {
    readonly stackName?: string;
    readonly templateFile?: string;
    readonly terminationProtection?: boolean;
  };
}

/** The subject of an `Fn::GetStackOutput`. */
export interface StackOutput {
  readonly StackName: string;
  readonly OutputName: string;
}

/**
 * Types of resources that moto's CloudFormation ignores without a warning. A reference to one would fail, so it becomes
 * a name that no resource has.
 */
const PASSED_OVER: ReadonlySet<string> = new Set([
  'AWS::ApiGateway::BasePathMapping',
  'AWS::ApiGateway::DomainName',
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

/** Prefix of the ARNs of secrets. The rehearsal creates secrets itself, because moto's CloudFormation does not. */
export const SECRET_ARN_PREFIX = 'arn:aws:secretsmanager:us-east-1:123456789012:secret:';

/**
 * Rewrites the templates of a `cdk.out` so that moto deploys them. The rehearsal does not cover the parts that it
 * removes.
 * @returns the original templates, by the names of their stacks
 */
export function localizeTemplates(directory: string): Readonly<Record<string, Template>> {
  const files = templateFilesIn(directory);
  const templates = mapValues(files, (file) => JSON.parse(readFileSync(join(directory, file), 'utf8')) as Template);
  const localized = structuredClone(templates);
  for (const template of Object.values(localized)) localize(template);
  shareOutputs(localized);
  for (const [stack, file] of Object.entries(files)) {
    writeFileSync(join(directory, file), JSON.stringify(localized[stack]));
  }
  return templates;
}

/** Returns the names of the stacks in a `cdk.out`, each with the name that `cdk destroy` expects. */
export function stacksIn(
  directory: string,
): readonly { readonly name: string; readonly isProtected: boolean; readonly display: string }[] {
  return artifactsIn(directory).map(([id, { properties = {}, displayName = id }]) => ({
    name: properties.stackName ?? id,
    isProtected: properties.terminationProtection === true,
    display: displayName,
  }));
}

/**
 * Returns the files of the templates in a `cdk.out`, by the names of their stacks. A stack precedes the stacks that
 * refer to it.
 */
function templateFilesIn(directory: string): Readonly<Record<string, string>> {
  const files = artifactsIn(directory).map(([id, { properties = {} }]) => [
    properties.stackName ?? id,
    properties.templateFile ?? '',
  ]);
  return Object.fromEntries(files);
}

function artifactsIn(directory: string): readonly (readonly [id: string, Artifact])[] {
  const { artifacts } = JSON.parse(readFileSync(join(directory, 'manifest.json'), 'utf8')) as {
    readonly artifacts: Readonly<Record<string, Artifact>>;
  };
  return Object.entries(artifacts).filter(([, { type }]) => type === 'aws:cloudformation:stack');
}

/**
 * Replaces `Fn::GetStackOutput`, which moto does not know, with exports. Both read outputs of a stack that was deployed
 * earlier, and in both cases the template names an output without knowing its value.
 */
function shareOutputs(templates: Readonly<Record<string, Template>>): void {
  const exported = new Set<string>();
  const share = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(share);
    if (typeof value !== 'object' || value === null) return value;
    const { 'Fn::GetStackOutput': other } = value as { readonly 'Fn::GetStackOutput'?: StackOutput };
    if (other === undefined) return mapValues(value as Record<string, unknown>, share);
    const name = `${other.StackName}:${other.OutputName}`;
    if (templates[other.StackName]?.Outputs?.[other.OutputName] === undefined) throw new Error(`no output ${name}`);
    exported.add(name);
    return { 'Fn::ImportValue': name };
  };
  for (const template of Object.values(templates)) {
    template.Resources = share(template.Resources) as Template['Resources'];
    template.Outputs = share(template.Outputs ?? {}) as Record<string, object>;
  }
  for (const [stack, { Outputs = {} }] of Object.entries(templates)) {
    for (const [id, output] of Object.entries(Outputs)) {
      const name = `${stack}:${id}`;
      if (exported.has(name)) Outputs[id] = { ...output, Export: { Name: name } };
    }
  }
}

const GLOBAL_TABLE = 'AWS::DynamoDB::GlobalTable';

/** Moves the properties of a table's only replica to the table, because moto does not know replicas. */
function inOneRegion({ Properties = {}, ...resource }: Resource): Resource {
  const { Replicas, ...table } = Properties as { readonly Replicas: readonly Record<string, unknown>[] };
  const [only, ...others] = Replicas;
  if (only === undefined || others.length > 0)
    throw new Error('a table with replicas in several regions is not rehearsed');
  const { Region: _, ...own } = only;
  return { ...resource, Type: 'AWS::DynamoDB::Table', Properties: { ...table, ...own } };
}

/** Returns the older deletion policy that moto understands. */
function keptAs({ DeletionPolicy }: Resource): { readonly DeletionPolicy?: string } {
  return DeletionPolicy === 'RetainExceptOnCreate' ? { DeletionPolicy: 'Retain' } : {};
}

/**
 * Whether the rehearsal leaves out resources of `type`. Resources that run code during their creation need Docker in
 * moto. Load balancers are played from their templates.
 */
function isLeftOut(type: string): boolean {
  return PASSED_OVER.has(type) || type.startsWith('Custom::') || type.startsWith('AWS::ElasticLoadBalancingV2::');
}

function localize(template: Template): void {
  const gone = new Map(Object.entries(template.Resources).filter(([, { Type }]) => isLeftOut(Type)));
  const kept = Object.entries(template.Resources).filter(([id]) => !gone.has(id));
  const stubOf = (id: string): unknown => {
    const { Type: type, Properties: properties = {} } = gone.get(id) ?? { Type: '' };
    if (type === 'AWS::SecretsManager::Secret') return `${SECRET_ARN_PREFIX}${id}`;
    if (type === 'AWS::Lambda::Alias') return fix(properties.FunctionName); // permissions are on the function itself
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
    kept.map(([id, given]) => {
      const resource = given.Type === GLOBAL_TABLE ? inOneRegion(given) : given;
      const DependsOn = [resource.DependsOn ?? []].flat().filter((on) => !gone.has(on));
      const Properties = fix(resource.Properties ?? {}) as Record<string, unknown>;
      return [id, { ...resource, ...keptAs(resource), Properties, DependsOn }];
    }),
  );
  template.Outputs = fix(template.Outputs ?? {}) as Record<string, object>;
  delete template.Rules;
  delete template.Parameters?.BootstrapVersion; // moto forgets this parameter, and then no stack can be updated
}

function mapValues<From, To>(record: Readonly<Record<string, From>>, map: (value: From) => To): Record<string, To> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, map(value)]));
}
