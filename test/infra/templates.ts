import { readFileSync } from 'node:fs';
import { App, type Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { Code } from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import type { KubectlLayer } from '../../infra/constructs/eks/eks-cluster.ts';
import { hasPlanner, readSettings, type StatorConfig } from '../../infra/settings/index.ts';
import { DevStack } from '../../infra/stacks/dev-stack.ts';
import { ProductionStacks } from '../../infra/stacks/production-stacks.ts';
import type { Template as DeployedTemplate } from '../support/aws/localize.ts';

export interface Resource {
  readonly Type: string;
  readonly Properties: Record<string, unknown>;
  readonly DeletionPolicy?: string;
  readonly UpdateReplacePolicy?: string;
  readonly Metadata?: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

interface Statement {
  readonly Effect: string;
  readonly Action: string | readonly string[];
  readonly Resource: unknown;
}

/** The flags of `cdk.json`, so that templates here are those of a deployment. */
const { context } = JSON.parse(readFileSync('cdk.json', 'utf8')) as { context: Record<string, unknown> };
const HANDLER = 'export const handler = () => {};';
const httpFunctionCode = Code.fromInline(HANDLER);
/** Nothing is built here: the image has an address. */
const IMAGES = { edge: 'registry.example/stator:1' };

/**
 * @param isValidated whether CDK holds what it synthesises against the rules of CloudFormation, and throws by them.
 * Loading them takes seconds, so one suite does, `lint.test.ts`, for everything that a deployment may have.
 */
export function openApp(isValidated = false): App {
  return new App({ context, builtinCloudFormationValidation: isValidated });
}

export function devStack(app: App, config: StatorConfig = {}): Stack {
  const settings = readSettings({ images: IMAGES, ...config }, 'test');
  return new DevStack(app, 'Stator', { httpFunctionCode, settings });
}

/** The template of the stack that `npx cdk deploy` makes; the same object for the same `config`. */
export const devTemplate = eachOnce(
  (config: StatorConfig): Template => Template.fromStack(devStack(openApp(), config)),
);

export function productionStacks(
  app: App,
  config: StatorConfig = {},
  rollout: 'gradual' | 'now' = 'gradual',
  kubectl?: KubectlLayer,
): ProductionStacks {
  const settings = readSettings({ images: IMAGES, ...config }, 'test');
  const code = Code.fromInline(HANDLER);
  const planner = hasPlanner(settings) ? { planner: code, wake: code } : undefined;
  return new ProductionStacks(app, 'Stator', { httpFunctionCode, planner, kubectl, settings, rollout });
}

/** The templates of `-c env=production`, by the names of their stacks; the same objects for the same `config`. */
export const productionTemplates = eachOnce((config: StatorConfig) => templatesIn(productionStacks(openApp(), config)));

/** The same as they are deployed, by the names that stacks have in an account. */
export function deployedTemplates(config: StatorConfig = {}): Readonly<Record<string, DeployedTemplate>> {
  const templates = Object.entries(productionTemplates(config));
  return Object.fromEntries(templates.map(([id, each]) => [`Stator-${id}`, each.toJSON() as DeployedTemplate]));
}

/** Templates of the stacks in `scope`, by their names. */
export function templatesIn({ node: { children } }: Construct): Readonly<Record<string, Template>> {
  return Object.fromEntries((children as Stack[]).map((stack) => [stack.node.id, Template.fromStack(stack)]));
}

/** A synthesis takes a second, and suites only read what it has made. */
function eachOnce<T>(make: (config: StatorConfig) => T): (config?: StatorConfig) => T {
  const made = new Map<string, T>();
  return (config = {}) => {
    const key = JSON.stringify(config);
    const known = made.get(key) ?? make(config);
    made.set(key, known);
    return known;
  };
}

/** Actions by the resource they are allowed on, of the policies whose id matches. */
export function rightsOf(
  template: Template,
  policy: RegExp,
): readonly [resource: string, actions: readonly string[]][] {
  return statementsOf(template, policy).map(({ Action, Resource }) => {
    const [resource] = /[A-Za-z]+(?=[0-9A-F]{8})/.exec(JSON.stringify(Resource)) ?? [''];
    return [resource, [Action].flat().sort()];
  });
}

export function statementsOf(template: Template, policy: RegExp = /./): readonly Statement[] {
  return ['AWS::IAM::Policy', 'AWS::IAM::ManagedPolicy']
    .flatMap((type) => Object.entries(template.findResources(type)))
    .filter(([id]) => policy.test(id))
    .flatMap(([, { Properties }]) => Properties.PolicyDocument.Statement as Statement[]);
}

/** As text without what changes with the code. */
export function snapshotOf(template: Template): string {
  return JSON.stringify(template.toJSON(), undefined, 2)
    .replaceAll(/[0-9a-f]{64}/g, 'ASSET')
    .replaceAll(/(?<=CurrentVersion[0-9A-F]{8})[0-9a-f]{32}/g, 'RELEASE')
    .replaceAll(/(?<=": "|\()[0-9a-f]{12}(?="|\))/g, 'MARK');
}
